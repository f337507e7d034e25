from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.cohere_v2 import DIALECT
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Error, Finish
from rivermouth.wire import json
from tests.dialects.cohere_v2.case import answer, decode, pairs

STREAMS = sorted((Path(__file__).parent / "streams").glob("*.sse"))
NATIVE = [p for p in STREAMS if p.stem not in ("cut", "error", "error_object", "timeout", "odd")]
LOST = ApiError(Kind.NETWORK, "lost")


def relay(stream: bytes, *, until: int | None = None) -> tuple[bytes, Any]:
    """What the client is sent of the first `until` frames, and the relay, still running."""
    reader, decoder, running = DIALECT.reader(), DIALECT.decoder(None), DIALECT.relay(answer())  # type: ignore[arg-type,misc]
    sent = b"".join(running.feed(f, decoder.feed(f)) for f in reader.feed(stream)[:until])
    return sent, running


@pytest.mark.parametrize("path", NATIVE, ids=lambda p: p.stem)
def test_frames_pass_as_they_came_citations_included(path: Path) -> None:
    upstream = path.read_bytes()
    sent, _ = relay(upstream)
    got = DIALECT.reader().feed(sent)
    came = [f for f in DIALECT.reader().feed(upstream) if f.data != b"[DONE]"]
    assert [(g.name, g.data) for g in got] == [(c.name, json.line_safe(c.data)) for c in came]


@pytest.mark.fault("F3", "F5")
def test_frames_get_the_names_that_clients_go_by() -> None:
    sent, _ = relay((Path(__file__).parent / "streams" / "odd.sse").read_bytes())
    assert [name for name, _ in ((f.name, f) for f in DIALECT.reader().feed(sent))] == [
        "message-start",
        "content-start",
        "content-delta",
        "content-delta",
        "tool-call-start",
        "tool-call-delta",
        "message-end",
    ]
    assert isinstance(decode(sent)[-1], Finish)


@pytest.mark.fault("F11", "F13", "F14")
@pytest.mark.parametrize("stem", ["error", "error_object", "timeout"])
def test_an_upstreams_error_is_said_in_our_frame_after_closing_blocks(stem: str) -> None:
    sent, running = relay((Path(__file__).parent / "streams" / f"{stem}.sse").read_bytes())
    opened = [d["index"] for n, d in pairs(sent) if n == "content-start"]
    assert [d["index"] for n, d in pairs(sent) if n == "content-end"] == opened
    name, end = pairs(sent)[-1]
    assert (name, end["id"], end["delta"]["finish_reason"]) == ("message-end", "01J", "ERROR")
    assert running.fail(LOST) == b""


@pytest.mark.fault("F10", "F13")
@given(st.sampled_from(NATIVE), st.integers(0, 30))
def test_a_relay_that_fails_anywhere_closes_its_blocks(path: Path, until: int) -> None:
    stream = path.read_bytes()
    sent, running = relay(stream, until=until)
    ends = [i for i, f in enumerate(DIALECT.reader().feed(stream)) if f.name == "message-end"]
    whole = until > ends[0]
    ended = sent + running.fail(LOST)
    for start, end, may_stay in (
        ("content-start", "content-end", whole),
        ("tool-call-start", "tool-call-end", True),  # a call that was cut is not said to be whole
    ):
        opened = [d["index"] for n, d in pairs(ended) if n == start]
        closed = [d["index"] for n, d in pairs(ended) if n == end]
        assert closed == opened or (may_stay and closed == opened[: len(closed)])
    assert isinstance(decode(ended)[-1], Finish if whole else Error)
    assert [n for n, _ in pairs(ended)].count("message-end") == 1


@pytest.mark.fault("F10", "F23")
def test_only_a_true_end_and_only_one_beginning_pass() -> None:
    begin = b'event: message-start\ndata: {"type":"message-start","id":"x"}\n\n'
    end = b'event: message-end\ndata: {"type":"message-end","delta":{}}\n\n'
    sent, _ = relay(begin + begin + end + begin)
    assert [name for name, _ in pairs(sent)] == ["message-start", "message-end"]
    assert pairs(sent)[-1][1]["delta"]["finish_reason"] == "ERROR"


def test_a_reply_passes_as_it_came() -> None:
    assert DIALECT.relay_reply is not None
    reply = '{"id":"1","message":{"content":[{"type":"text","text":"a \u2028"}]},"new":{"x": 1.50}}'.encode()
    assert DIALECT.relay_reply(reply, answer()) == reply.replace(b"\xe2\x80\xa8", b"\\u2028")
