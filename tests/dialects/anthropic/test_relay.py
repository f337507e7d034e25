from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.anthropic import DIALECT
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.events import Error, Finish
from tests.dialects.anthropic.case import answer, decode, frames, pairs

STREAMS = sorted((Path(__file__).parent / "streams").glob("*.sse"))
NATIVE = [p for p in STREAMS if p.stem not in ("error", "nameless", "cut")]
LOST = ApiError(Kind.NETWORK, "lost")
CALLS = (["tool_use"], ["server_tool_use"])


def relay(stream: bytes, *, until: int | None = None) -> tuple[bytes, Any]:
    """What the client is sent of the first `until` frames, and the relay, still running."""
    reader, decoder, running = DIALECT.reader(), DIALECT.decoder(None), DIALECT.relay(answer())  # type: ignore[arg-type,misc]
    sent = b"".join(running.feed(f, decoder.feed(f)) for f in reader.feed(stream)[:until])
    return sent, running


@pytest.mark.parametrize("path", NATIVE, ids=lambda p: p.stem)
def test_frames_pass_as_they_came_but_for_the_model(path: Path) -> None:
    upstream = path.read_bytes()
    sent, _ = relay(upstream)
    got, came = frames(sent), DIALECT.reader().feed(upstream)
    assert got[0].data == came[0].data.replace(b'"claude-x"', b'"gpt-x"')
    separators = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))
    for mine, theirs in zip(got[1:], came[1:], strict=True):
        data = theirs.data
        for raw, escaped in separators:
            data = data.replace(raw, escaped)
        assert (mine.name, mine.data) == (theirs.name, data)


def test_frames_get_the_names_that_the_sdks_need() -> None:
    sent, _ = relay((Path(__file__).parent / "streams" / "nameless.sse").read_bytes())
    assert all(name == data["type"] for name, data in pairs(sent))
    assert pairs(sent)[-1][0] == "message_stop"


@pytest.mark.fault("F11", "F13", "F14")
def test_an_upstreams_error_is_said_in_our_envelope_after_closing_blocks() -> None:
    sent, running = relay((Path(__file__).parent / "streams" / "error.sse").read_bytes())
    assert [name for name, _ in pairs(sent)][-2:] == ["content_block_stop", "error"]
    assert pairs(sent)[-1][1] == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Overloaded"},
        "request_id": "01J",
    }
    assert running.fail(LOST) == b""


@pytest.mark.fault("F10", "F13")
@given(st.sampled_from(NATIVE), st.integers(0, 30))
def test_a_relay_that_fails_anywhere_closes_its_blocks(path: Path, until: int) -> None:
    stream = path.read_bytes()
    sent, running = relay(stream, until=until)
    whole = until >= len(DIALECT.reader().feed(stream))
    ended = sent + running.fail(LOST)
    starts = [d for n, d in pairs(ended) if n == "content_block_start"]
    closed = [d["index"] for n, d in pairs(ended) if n == "content_block_stop"]
    left = [d["content_block"]["type"] for d in starts if d["index"] not in closed]
    assert left == [] or (not whole and left in CALLS), "only a call that was cut stays open"
    assert closed == [d["index"] for d in starts if d["index"] in closed]
    assert isinstance(decode(ended)[-1], Finish if whole else Error)
    assert [n for n, _ in pairs(ended)].count("error") == (0 if whole else 1)


@pytest.mark.fault("F10", "F23")
def test_only_a_true_end_and_only_one_beginning_pass() -> None:
    begin = b'event: message_start\ndata: {"type":"message_start","message":{"model":"claude-x"}}\n\n'
    stop = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    sent, _ = relay(begin + begin + stop + begin)
    assert [name for name, _ in pairs(sent)] == ["message_start", "error"]


def test_a_reply_passes_with_only_the_model_changed() -> None:
    assert DIALECT.relay_reply is not None
    reply = b'{"id":"msg_1","model":"claude-x","content":[{"type":"text","text":"a  b"}],"new":{"x": 1.50}}'
    assert DIALECT.relay_reply(reply, answer()) == reply.replace(b"claude-x", b"gpt-x")
    assert json.loads(DIALECT.relay_reply(b"{}", answer())) == {"model": "gpt-x"}
    with pytest.raises(WireError):
        DIALECT.relay_reply(b"[]", answer())
