"""Deltas that go from socket to socket without being read: the same bytes, the same record, as the long way.

A connection gets the bytes of an upstream as reads of every size; what its client is sent is compared with what the
frames mean, translated one by one.
"""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any, Final, cast

import msgspec
import pytest

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Decoder, Dialect
from rivermouth.engine.call import Call
from rivermouth.engine.deadlines import Deadlines, Limits
from rivermouth.engine.output import output
from rivermouth.engine.pump import Flow, pump
from rivermouth.engine.tally import Tally
from rivermouth.engine.transcript import Transcript
from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import Event
from rivermouth.ir.request import Message, Request, Role, Text
from rivermouth.providers.answers import Stream
from rivermouth.providers.failures import Failures
from rivermouth.providers.lean.client import LeanResponse
from rivermouth.providers.lean.connection import Connection
from rivermouth.providers.provider import Batch
from rivermouth.routing.endpoint import Candidate, Endpoint
from rivermouth.routing.policy import DEFAULT_ID
from rivermouth.store.port import CallRecord
from rivermouth.wire.frame import Frame
from tests.in_turn import in_turn

HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
UPSTREAM: Final = discover()["openai_chat"]
CLIENTS: Final = sorted(discover())
STRAIGHT: Final = frozenset({"anthropic", "ollama", "openai_chat"})
"""The clients whose encoders know how to let text pass."""

WORDS: Final = (
    " the", "quick ", "brown", "fo\u00e9x", " \U0001f600", "a", "", "\n", '"', "\\", "content", "\u2028", "\x85",
    "\x7f", "\t- ", "data: ", "[DONE]", "}]}", "\ufffd", "\u0001", " jumps", " over", " it", "0", "}",
)  # fmt: skip
ENDPOINT = Endpoint(id="e", provider="p", model="m")


class FakeTransport:
    """Notes what was written; `full` is a client that reads slowly."""

    def __init__(self) -> None:
        self.reading = True

    def write(self, data: bytes) -> None:
        """The request."""

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        """There is no socket."""

    close = abort


class Client:
    """A sink; while `slow` it has to be waited for."""

    started = True

    def __init__(self) -> None:
        self.slow = False
        self.got: list[bytes] = []

    def write(self, data: bytes) -> bool:
        if not self.slow:
            self.got.append(data)
        return not self.slow

    async def send(self, data: bytes, **_: Any) -> None:
        self.got.append(data)

    async def document(self, body: bytes, **_: Any) -> None:
        raise AssertionError("this is a stream")

    async def fail(self, error: Any) -> None:
        raise error

    def hang_up(self) -> None:
        raise AssertionError("nobody hangs up")


class Counting:
    """A decoder that counts the frames that it was given."""

    def __init__(self, inner: Decoder) -> None:
        self.inner = inner
        self.frames = 0

    def feed(self, frame: Frame) -> list[Event]:
        self.frames += 1
        return self.inner.feed(frame)

    def eof(self) -> list[Event]:
        return self.inner.eof()

    def plain(self) -> Any:
        return cast("Any", self.inner).plain()


class Run:
    """One stream from an OpenAI upstream to a client of some dialect."""

    def __init__(self, client: str) -> None:
        self.dialect: Dialect = discover()[client]
        self.client = Client()
        self.counting = Counting(UPSTREAM.decoder(None))
        self.counted = msgspec.structs.replace(UPSTREAM, decoder=lambda request: self.counting)
        self.request = Request(model="m", messages=(Message(Role.USER, (Text("hi"),)),), stream=True)
        self.relayed = client == UPSTREAM.name
        route = next(r for r in self.dialect.routes if r.streams)
        opened = CallRecord(
            id="c", started_ns=0, operation="generate", dialect=client, surface="", model_asked="m", stream=True
        )
        surface = self.dialect.surfaces[0]
        self.call = Call(
            opened=opened, dialect=self.dialect, surface=surface, route=route, request=self.request, clock_ns=lambda: 0
        )
        self.line = self.call.ledger.begin(ENDPOINT, DEFAULT_ID)

    async def __call__(self, reads: list[bytes], slow: frozenset[int] = frozenset()) -> None:
        """slow: reads before which the client stops reading for one of them."""
        connection = Connection([])
        connection.connection_made(cast("Any", FakeTransport()))
        connection.ask(b"", None)
        connection.data_received(HEAD)
        response = LeanResponse("lab", connection, set())
        upstream = Stream(response, self.counted, self.request, Failures("lab", ()), relay=self.relayed)
        answer = self.call.answer()
        flow = Flow(
            call=self.call,
            sink=cast("Any", self.client),
            line=self.line,
            upstream=upstream,
            output=output(self.dialect, answer, stream=True, same_dialect=self.relayed),
            answer=answer,
            deadlines=Deadlines(Limits(), 600.0, lambda error: None, None),
            request=self.request,
            routing_key=None,
            draw=lambda: 1.0,
            running=lambda: 1,
            checkpoint=lambda mark: None,
        )
        pumping = asyncio.ensure_future(pump(flow))
        for number, data in enumerate(reads):
            await asyncio.sleep(0)
            self.client.slow = number in slow
            connection.data_received(data)
            await asyncio.sleep(0)
            self.client.slow = False
            await asyncio.sleep(0)
        await pumping
        flow.deadlines.stop()

    @property
    def bytes(self) -> bytes:
        return b"".join(self.client.got)


def frame(delta: dict[str, Any], finish: str | None = None, *, ascii_: bool = False) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = {"id": "up", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": [choice]}
    return b"data: " + json.dumps(chunk, ensure_ascii=ascii_, separators=(",", ":")).encode() + b"\n\n"


def frames(words: list[str], *, ascii_: bool = False) -> list[bytes]:
    said = [frame({"content": word}, ascii_=ascii_) for word in words]
    return [frame({"role": "assistant", "content": ""}), *said, frame({}, "stop"), b"data: [DONE]\n\n"]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def expected(client: str, pieces: list[bytes]) -> tuple[bytes, Tally]:
    """What the frames mean, each translated for itself."""
    run, tally = Run(client), Tally()
    out = output(run.dialect, run.call.answer(), stream=True, same_dialect=run.relayed)
    read, decode = UPSTREAM.reader().feed, UPSTREAM.decoder(None).feed
    made = []
    for piece in pieces:
        for found in read(piece):
            events = decode(found)
            tally.feed(events)
            made.append(out.take(Batch(events, [(found, len(events))] if run.relayed else None)))
    return b"".join(made), tally


def run_of(client: str, pieces: list[bytes], reads: list[bytes], slow: frozenset[int] = frozenset()) -> Run:
    run = Run(client)
    asyncio.run(_bounded(run(reads, slow)))
    body, tally = expected(client, pieces)
    assert run.bytes == body
    assert (run.line.tally.text_chars, run.line.tally.chunks) == (tally.text_chars, tally.chunks)
    return run


async def _bounded(work: Any) -> None:
    async with asyncio.timeout(10.0):
        await work


@pytest.mark.parametrize("client", CLIENTS)
def test_a_frame_a_read_says_what_the_long_way_says(client: str) -> None:
    pieces = frames([" the", " quick", " br\u00f6wn", " fox \U0001f600", " jumps"] * 20)
    run = run_of(client, pieces, [*map(chunk, pieces), b"0\r\n\r\n"])
    if client in STRAIGHT:
        assert run.counting.frames < 10, "most frames were never read"


@pytest.mark.parametrize("client", sorted(STRAIGHT))
@pytest.mark.parametrize("together", [2, 3, 7])
def test_what_a_busy_loop_reads_at_once_goes_the_same_way(client: str, together: int) -> None:
    pieces = frames([" the", " quick", " br\u00f6wn", " fox \U0001f600", " jumps"] * 20)
    chunks = [*map(chunk, pieces)]
    first, rest = chunks[:4], chunks[4:]
    reads = [b"".join(rest[n : n + together]) for n in range(0, len(rest), together)]
    run = run_of(client, pieces, [*first, *reads, b"0\r\n\r\n"])
    assert run.counting.frames < 10 + 2 * together, "most frames were never read"


@pytest.mark.parametrize("client", sorted(STRAIGHT))
def test_a_character_in_two_halves_is_not_made_whole(client: str) -> None:
    """Each frame is JSON for itself: bytes that are text only together with the next frame's are no text."""
    pieces = frames([" the", " quick", " brown", " fox", "\U0001f600", " ends"])
    half, other = (
        pieces[5].replace("\U0001f600".encode(), b"\xf0\x9f"),
        pieces[5].replace("\U0001f600".encode(), b"\x98\x80"),
    )
    run = Run(client)
    chunks = [*map(chunk, [*pieces[:5], half, other, *pieces[6:]])]
    with pytest.raises(ApiError, match="malformed"):
        asyncio.run(_bounded(run([*chunks[:5], b"".join(chunks[5:7]), *chunks[7:], b"0\r\n\r\n"])))
    assert b"\xf0\x9f" not in run.bytes


@pytest.mark.parametrize("client", sorted(STRAIGHT))
def test_a_text_that_is_kept_is_kept_whole(client: str) -> None:
    words = [" the", " quick", " br\u00f6wn", " fox \U0001f600", " jumps"] * 20
    pieces = frames(words)
    run = Run(client)
    transcript = run.call.transcript = Transcript()
    run.line.tally = transcript.heard(Candidate(ENDPOINT, "the only one"))
    asyncio.run(_bounded(run([*map(chunk, pieces), b"0\r\n\r\n"])))
    kept = transcript.text("c", 0, run.request)
    assert kept is not None
    assert kept.answer == "".join(words)
    assert run.bytes == expected(client, pieces)[0]


@pytest.mark.parametrize("client", sorted(STRAIGHT))
@in_turn("seed", range(40))
def test_any_words_cut_in_any_way(client: str, seed: int) -> None:
    draw = random.Random(f"{client} {seed}")
    pieces = frames([draw.choice(WORDS) for _ in range(60)], ascii_=draw.random() < 0.3)
    raw, reads = b"", []
    for piece in pieces:
        raw += (
            chunk(piece) if draw.random() < 0.9 else b"".join(chunk(piece[i : i + 7]) for i in range(0, len(piece), 7))
        )
        if draw.random() < 0.9:
            reads.append(raw)
            raw = b""
        elif draw.random() < 0.5:
            cut = draw.randrange(len(raw))
            reads.append(raw[:cut])
            raw = raw[cut:]
    slow = frozenset(n for n in range(3, len(reads)) if draw.random() < 0.1)
    run_of(client, pieces, [r for r in reads if r] + [raw + b"0\r\n\r\n"], slow)


@pytest.mark.parametrize("client", sorted(STRAIGHT))
def test_a_change_in_what_stands_around_the_text_is_seen(client: str) -> None:
    """Another part, another choice, a call: whatever comes, the stencil holds for what it was learned from alone."""
    said = [frame({"content": f" word{n}"}) for n in range(6)]
    thinking = [frame({"reasoning_content": f" thought{n}"}) for n in range(6)]
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    pieces = [
        frame({"role": "assistant", "content": ""}),
        *thinking, *said, *thinking, *said, frame({"tool_calls": [call]}), *said, *said,
        frame({}, "stop"), b"data: [DONE]\n\n",
    ]  # fmt: skip
    run_of(client, pieces, [*map(chunk, pieces), b"0\r\n\r\n"])


@pytest.mark.parametrize("size", [b"%X", b"0%x", b"%x;a=b"])
def test_chunks_written_in_another_way_take_the_long_way(size: bytes) -> None:
    pieces = frames([f" word{n}" for n in range(30)])
    reads = [size % len(piece) + b"\r\n" + piece + b"\r\n" for piece in pieces]
    run = run_of("anthropic", pieces, [*reads, b"0\r\n\r\n"])
    assert run.counting.frames >= len(pieces) - 1 or size == b"%X"


def test_a_size_that_is_not_that_of_the_chunk_is_the_parsers_to_judge() -> None:
    pieces = frames([f" word{n}" for n in range(10)])
    good = [*map(chunk, pieces)]
    lying = chunk(pieces[5] + pieces[6])  # two frames in one chunk: nothing between the ends is one text
    run = run_of("anthropic", pieces, [*good[:5], lying, *good[7:], b"0\r\n\r\n"])
    assert run.counting.frames < len(pieces)
