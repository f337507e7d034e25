"""Decoder, encoder and relay, and the vendor's own SDK on a loopback socket."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest

from rivermouth.dialects.dialect import Answer
from rivermouth.dialects.openai_completions import DIALECT
from rivermouth.dialects.openai_completions.decoder import CHOICES_CAP
from rivermouth.dialects.openai_completions.relay import Relay
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    MediaDelta,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    ReasoningDelta,
    Start,
    TextDelta,
    Unknown,
    Usage,
    Warn,
)
from rivermouth.ir.fold import fold
from rivermouth.ir.request import Request
from rivermouth.wire.frame import Frame
from tests.dialects.loopback import Loopback, loopback
from tests.dialects.openai_completions.test_request import parse


def answer(**fields: Any) -> Answer:
    request = parse(stream=True, **fields)
    return Answer(id="01J", model="m", created_ns=10**18, surface=DIALECT.surfaces[0], request=request)


def part(number: int, kind: PartKind, *said: Event, choice: int = 0) -> list[Event]:
    call = {"id": "c", "name": "f"} if kind is PartKind.TOOL else {}
    return [PartStart(number, kind, choice, **call), *said, PartEnd(number)]


ALL: list[Event] = [
    Start(),
    *part(0, PartKind.REASONING, ReasoningDelta(0, "hm")),
    *part(1, PartKind.TEXT, TextDelta(1, "Deep "), TextDelta(1, "water.")),
    *part(2, PartKind.TOOL, ArgsDelta(2, "{}")),
    *part(3, PartKind.IMAGE, MediaDelta(3, url="https://x.org/a.png")),
    Usage(9, 4),
    Finish(Reason.TOOL_CALLS),
]
TWO: list[Event] = [
    Start(),
    PartStart(0, PartKind.TEXT),
    PartStart(1, PartKind.TEXT, 1),
    TextDelta(1, "Uno"),
    TextDelta(0, "One"),
    PartEnd(0),
    PartEnd(1),
    Usage(9, 4),
    Finish(Reason.STOP, None, (Reason.STOP, Reason.LENGTH)),
]


def chunks(stream: bytes) -> list[Any]:
    blocks = stream.decode().split("\n\n")[:-1]
    assert blocks.pop() == "data: [DONE]"
    return [json.loads(block.removeprefix("data: ")) for block in blocks]


class TestEncoder:
    @pytest.mark.fault("F25")
    def test_thoughts_and_calls_are_never_text(self) -> None:
        sent = chunks(DIALECT.encoder(answer()).feed(ALL))
        assert "".join(c["choices"][0]["text"] for c in sent) == "Deep water.[image](https://x.org/a.png)"
        assert [c["choices"][0]["finish_reason"] for c in sent] == [None, None, None, "stop"]
        assert {c["object"] for c in sent} == {"text_completion"}
        whole = json.loads(DIALECT.encode_reply(fold(ALL), answer()))
        assert whole["choices"][0]["text"] == "Deep water.[image](https://x.org/a.png)"

    def test_usage_comes_last_and_only_if_it_is_asked_for(self) -> None:
        assert all("usage" not in c for c in chunks(DIALECT.encoder(answer()).feed(ALL)))
        sent = chunks(DIALECT.encoder(answer(stream_options={"include_usage": True})).feed(ALL))
        assert [c["usage"] for c in sent[:-1]] == [None] * (len(sent) - 1)
        assert (sent[-1]["choices"], sent[-1]["usage"]["total_tokens"]) == ([], 13)

    def test_choices_have_their_own_ends(self) -> None:
        sent = chunks(DIALECT.encoder(answer(n=2)).feed(TWO))
        ends = [(c["choices"][0]["index"], c["choices"][0]["finish_reason"]) for c in sent[-2:]]
        assert ends == [(0, "stop"), (1, "length")]

    def test_a_delta_fits_its_stencil(self) -> None:
        encoder = DIALECT.encoder(answer())
        encoder.feed(ALL[:6])
        stencil = encoder.plain(1)  # type: ignore[attr-defined]
        assert stencil.head + b"more" + stencil.tail == encoder.feed([TextDelta(1, "more")])
        assert encoder.plain(0) is None  # type: ignore[attr-defined]


class TestDecoder:
    def heard(self, *events: Any) -> list[Event]:
        decoder = DIALECT.decoder(parse())
        found = [e for event in events for e in decoder.feed(Frame("", json.dumps(event).encode()))]
        return [*found, *decoder.feed(Frame("", b"[DONE]")), *decoder.eof()]

    def test_an_end_without_a_finish_reason_is_a_cut(self) -> None:
        (*_, end) = self.heard({"choices": [{"text": "a", "index": 0}]})
        assert isinstance(end, Error)
        assert end.error.kind is Kind.TRUNCATED

    def test_an_empty_stream_is_an_error(self) -> None:
        (end,) = self.heard()
        assert isinstance(end, Error)
        assert end.error.code == "empty"

    @pytest.mark.parametrize(
        ("word", "reason", "warned"),
        [("stop", Reason.STOP, 0), ("tool_calls", Reason.STOP, 0), ("max_tokens", Reason.LENGTH, 0),
         ("odd", Reason.STOP, 1)],
    )  # fmt: skip
    def test_other_servers_words(self, word: str, reason: Reason, warned: int) -> None:
        events = self.heard({"choices": [{"text": "a", "finish_reason": word}]})
        assert events[-1] == Finish(reason)
        assert len([e for e in events if isinstance(e, Warn)]) == warned

    @pytest.mark.parametrize(
        "failed",
        [
            {"error": {"message": "m", "code": "server_is_overloaded"}},
            {"choices": [{"index": 0, "error": {"message": "m", "code": "server_is_overloaded"}}]},
            {"object": "error", "message": "m", "code": "server_is_overloaded"},
        ],
    )
    def test_every_way_to_fail(self, failed: Any) -> None:
        end = self.heard({"choices": [{"text": "a"}]}, failed)[-1]
        assert isinstance(end, Error)
        assert (end.error.kind, end.error.message) == (Kind.OVERLOADED, "m")
        end = self.heard({"choices": [{"text": "a", "finish_reason": "abort"}]})[-1]
        assert isinstance(end, Error)

    def test_what_is_no_chunk_is_unknown_or_no_frame(self) -> None:
        assert isinstance(self.heard({"object": "ping"})[1], Unknown)
        for index in (-1, CHOICES_CAP):
            with pytest.raises(WireError):
                self.heard({"choices": [{"text": "a", "index": index}]})


class TestRelay:
    def relayed(self, stream: bytes, **fields: Any) -> bytes:
        relay, decoder = Relay(answer(**fields)), DIALECT.decoder(parse())
        return b"".join(relay.feed(frame, decoder.feed(frame)) for frame in DIALECT.reader().feed(stream))

    def test_usage_is_kept_from_who_did_not_ask(self) -> None:
        asked = {"stream_options": {"include_usage": True}}
        stream = DIALECT.encoder(answer(**asked)).feed(TWO)
        assert self.relayed(stream, **asked) == stream
        assert self.relayed(stream) == DIALECT.encoder(answer()).feed(TWO)

    @pytest.mark.fault("F10")
    def test_an_end_that_did_not_come_is_not_told(self) -> None:
        relay, decoder = Relay(answer()), DIALECT.decoder(parse())
        stream = DIALECT.encoder(answer()).feed(TWO).removesuffix(b"data: [DONE]\n\n")
        out = b"".join(relay.feed(f, decoder.feed(f)) for f in DIALECT.reader().feed(stream))
        out += relay.fail(ApiError(Kind.TRUNCATED, "cut"))
        assert out.count(b'"finish_reason":"') == 1  # of the choice that had ended before the other did
        assert out.endswith(b"}\n\n")
        assert b"[DONE]" not in out

    @pytest.mark.fault("F10")
    def test_what_a_held_chunk_says_beside_its_end_is_not_lost_with_it(self) -> None:
        relay, decoder = Relay(answer()), DIALECT.decoder(parse())
        data = b'{"id":"u","model":"m","choices":[{"index":0,"text":"all of it","finish_reason":"stop"}]}'
        frame = Frame("", data)
        assert relay.feed(frame, decoder.feed(frame)) == b""
        said, error = DIALECT.reader().feed(relay.fail(ApiError(Kind.TRUNCATED, "cut")))
        assert json.loads(said.data)["choices"] == [{"index": 0, "text": "all of it", "finish_reason": None}]
        assert list(json.loads(error.data)) == ["error"]


def client(served: Loopback) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{served.url}/v1", api_key="k", max_retries=0)


class TestSdk:
    def test_whole_and_streamed(self) -> None:
        with loopback(DIALECT, lambda _: TWO) as served, client(served) as sdk:
            whole = sdk.completions.create(model="m", prompt="Once", n=2)
            pieces = list(
                sdk.completions.create(
                    model="m", prompt="Once", n=2, stream=True, stream_options={"include_usage": True}
                )
            )
        assert [(c.index, c.text, c.finish_reason) for c in whole.choices] == [
            (0, "One", "stop"),
            (1, "Uno", "length"),
        ]
        said = ["", ""]
        for piece in pieces:
            for choice in piece.choices:
                said[choice.index] += choice.text
        assert said == ["One", "Uno"]
        assert pieces[-1].usage == whole.usage

    def test_asynchronously(self) -> None:
        async def ask(url: str) -> str:
            async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as sdk:
                stream = await sdk.completions.create(model="m", prompt="Once", stream=True)
                return "".join([c.text async for piece in stream for c in piece.choices])

        with loopback(DIALECT, lambda _: ALL) as served:
            assert asyncio.run(ask(served.url)).startswith("Deep water.")

    @pytest.mark.fault("F11", "F15")
    def test_errors(self) -> None:
        def say(request: Request) -> list[Event] | ApiError:
            broken = ApiError(Kind.OVERLOADED, "busy")
            return [*ALL[:6], Error(broken)] if request.stream else broken

        with loopback(DIALECT, say) as served, client(served) as sdk:
            with pytest.raises(openai.InternalServerError):
                sdk.completions.create(model="m", prompt="Once")
            with pytest.raises(openai.APIError, match="busy"):
                list(sdk.completions.create(model="m", prompt="Once", stream=True))
