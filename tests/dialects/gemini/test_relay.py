from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rivermouth.dialects.gemini import DIALECT
from rivermouth.dialects.gemini.relay import Relay, relay_reply
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.events import Error
from rivermouth.wire.frame import Frame
from tests.dialects.gemini.case import ARRAY, STREAMS, answer, decode, elements, frame, frames, response

COMPLETE = [p for p in STREAMS if "error" not in p.stem and p.stem != "cut"]


def relayed(objects: list[Frame], **changes: Any) -> bytes:
    decoder, relay = DIALECT.decoder(None), Relay(answer(**changes))  # type: ignore[arg-type]
    return b"".join(relay.feed(f, decoder.feed(f)) for f in objects)


def came(path: Path) -> list[Frame]:
    return DIALECT.reader().feed(path.read_bytes())


@pytest.mark.parametrize("path", COMPLETE, ids=lambda p: p.stem)
def test_every_frame_passes_with_only_the_models_name_replaced(path: Path) -> None:
    sent = [json.loads(f.data) for f in came(path)]
    want = [{**o, "modelVersion": "gpt-x"} for o in sent]
    stream = relayed(came(path))
    assert frames(stream) == want
    assert len(stream.decode().splitlines()) == 2 * len(want)
    assert elements(relayed(came(path), surface=ARRAY)) == want


def test_members_that_nobody_knows_and_their_order_are_kept() -> None:
    candidate = b'{"content":{"parts":[{"text":"a","x":1.50}]}}'
    one = b'{"candidates":[%b],"modelVersion":"up","new":[1, 2],"responseId":"r"}' % candidate
    assert relayed([Frame("", one)]) == b"data: " + one.replace(b'"up"', b'"gpt-x"') + b"\n\n"


def test_a_name_in_the_models_own_words_is_not_replaced() -> None:
    args = {"modelVersion": "up", "responseId": "r"}
    part = {"functionCall": {"name": "f", "args": args}}
    first = response({"text": "x"}, modelVersion="up", responseId="r")
    calls = [response(part, modelVersion="up", responseId="r"), response(part, finish="STOP")]
    out = frames(relayed([Frame("", json.dumps(o, separators=(",", ":")).encode()) for o in [first, first, *calls]]))
    assert [o["candidates"][0]["content"]["parts"][0]["functionCall"]["args"] for o in out[2:]] == [args, args]
    assert [o.get("modelVersion") for o in out] == ["gpt-x", "gpt-x", "gpt-x", None]


@pytest.mark.fault("F11", "F14")
def test_an_upstreams_error_is_told_in_our_words_and_nothing_follows() -> None:
    path = next(p for p in STREAMS if p.stem == "error")
    stream = relayed([*came(path), frame(response({"text": "more"}))])
    assert list(frames(stream)[-1]["error"]) == ["code", "message", "status"]
    assert isinstance(decode(stream)[-1], Error)
    assert list(elements(relayed(came(path), surface=ARRAY))[-1]) == ["error"]


def test_an_end_that_is_a_failure_in_the_protocols_words_passes() -> None:
    path = next(p for p in STREAMS if p.stem == "malformed_call")
    last = frames(relayed(came(path)))[-1]["candidates"][0]
    assert last["finishReason"] == "MALFORMED_FUNCTION_CALL"


@pytest.mark.fault("F10")
def test_a_cut_is_told_once() -> None:
    relay = Relay(answer(surface=ARRAY))
    data = relay.feed(frame(response({"text": "a"})), [])
    data += relay.fail(ApiError(Kind.TRUNCATED, "cut"))
    assert relay.fail(ApiError(Kind.TRUNCATED, "again")) == relay.feed(frame(response({"text": "b"})), []) == b""
    assert elements(data)[-1]["error"]["status"] == "DATA_LOSS"
    assert relay.feed(Frame("", b"[DONE]"), []) == b""


def test_a_whole_reply_passes_with_the_models_name_replaced() -> None:
    reply = b'{ "candidates": [ {"x": 1.0} ], "modelVersion": "up" }'
    assert relay_reply(reply, answer()) == b'{"candidates":[ {"x": 1.0} ],"modelVersion":"gpt-x"}'
    assert relay_reply(b'{"a": 1}', answer()) == b'{"a": 1}'
    twice = b'{"a":{"modelVersion":"up"},"modelVersion":"up"}'
    assert relay_reply(twice, answer()) == b'{"a":{"modelVersion":"up"},"modelVersion":"gpt-x"}'
    with pytest.raises(WireError):
        relay_reply(b"[]", answer())
