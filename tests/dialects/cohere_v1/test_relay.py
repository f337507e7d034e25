from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.cohere_v1 import DIALECT
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Error, Finish, Reason
from rivermouth.wire import json
from tests.dialects.cohere_v1.case import answer, decode, lines

STREAMS = sorted((Path(__file__).parent / "streams").glob("*.ndjson"))
NATIVE = [p for p in STREAMS if p.stem not in ("cut", "error", "error_object", "odd")]
LOST = ApiError(Kind.NETWORK, "lost")


def relay(stream: bytes, *, until: int | None = None) -> tuple[bytes, Any]:
    """What the client is sent of the first `until` lines, and the relay, still running."""
    reader, decoder, running = DIALECT.reader(), DIALECT.decoder(None), DIALECT.relay(answer())  # type: ignore[arg-type,misc]
    sent = b"".join(running.feed(f, decoder.feed(f)) for f in reader.feed(stream)[:until])
    return sent, running


@pytest.mark.fault("F5")
@pytest.mark.parametrize("path", NATIVE, ids=lambda p: p.stem)
def test_lines_pass_as_they_came_search_results_included(path: Path) -> None:
    upstream = path.read_bytes()
    sent, running = relay(upstream)
    assert sent == json.line_safe(upstream)
    assert running.fail(LOST) == b""


@pytest.mark.fault("F11", "F14")
@pytest.mark.parametrize("stem", ["error", "error_object"])
def test_an_upstreams_error_is_said_in_our_line(stem: str) -> None:
    sent, running = relay((Path(__file__).parent / "streams" / f"{stem}.ndjson").read_bytes())
    end = lines(sent)[-1]
    assert (end["event_type"], end["finish_reason"], end["response"]["id"]) == ("stream-end", "ERROR", "01J")
    assert end["error"] in ("the model crashed", "internal server error")
    assert running.fail(LOST) == b""


@pytest.mark.fault("F10", "F13")
@given(st.sampled_from(NATIVE), st.integers(0, 12))
def test_a_relay_that_fails_anywhere_ends_with_all_that_was_said(path: Path, until: int) -> None:
    stream = path.read_bytes()
    sent, running = relay(stream, until=until)
    whole = until >= stream.count(b"\n")
    ended = sent + running.fail(LOST)
    assert isinstance(decode(ended)[-1], Finish if whole else Error)
    found = lines(ended)
    assert [line["event_type"] for line in found].count("stream-end") == 1
    if not whole:
        passed = [
            line.get("text") or "" for line in found if line["event_type"] in ("text-generation", "tool-calls-chunk")
        ]
        assert found[-1]["response"]["text"] == "".join(passed)


def test_nothing_passes_after_the_end() -> None:
    end = (Path(__file__).parent / "streams" / "only_end.ndjson").read_bytes()
    assert relay(end * 2)[0] == end


@pytest.mark.fault("F7")
def test_a_whole_answer_in_place_of_a_stream_is_said_anew_as_one() -> None:
    sent, running = relay(b'{"text":"Hi","finish_reason":"MAX_TOKENS","message":{"role":"assistant"}}\n')
    assert [line["event_type"] for line in lines(sent)] == ["stream-start", "text-generation", "stream-end"]
    assert decode(sent)[-1] == Finish(Reason.LENGTH)
    assert running.fail(LOST) == b""


def test_a_reply_passes_as_it_came() -> None:
    assert DIALECT.relay_reply is not None
    reply = '{"text":"a \u2028","new":{"x": 1.50}}'.encode()
    assert DIALECT.relay_reply(reply, answer()) == reply.replace(b"\xe2\x80\xa8", b"\\u2028")
