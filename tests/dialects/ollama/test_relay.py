from __future__ import annotations

import json
from pathlib import Path

import pytest

from rivermouth.dialects.ollama.decode import Decoder
from rivermouth.dialects.ollama.relay import Relay, relay_reply
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Event
from tests.dialects.ollama.case import answer, decode, frame, lines

STREAMS = Path(__file__).parent / "streams"


def relayed(data: bytes, kind: str, model: str = "mine") -> bytes:
    relay, decoder = Relay(answer(kind, model=model)), Decoder()
    frames = [frame(line) for line in data.splitlines()]
    return b"".join(relay.feed(f, decoder.feed(f)) for f in frames)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("chat_text", "chat"),
        ("chat_thinking_tools", "chat"),
        ("chat_error", "chat"),
        ("generate_length", "generate"),
        ("generate_image", "generate"),
    ],
)
def test_frames_pass_with_only_the_model_changed(name: str, kind: str) -> None:
    data = (STREAMS / f"{name}.ndjson").read_bytes()
    upstream = json.loads(data.splitlines()[0])["model"]
    want = data.replace(f'"model":"{upstream}"'.encode(), b'"model":"mine"')
    assert relayed(data, kind) == want


def test_a_model_that_is_not_the_first_member_is_changed_too() -> None:
    data = b'{"done":false,"model":"up","response":"x","new":1.50}\n{"done":true,"model":"up","response":""}\n'
    assert relayed(data, "generate") == data.replace(b'"up"', b'"mine"')


def test_text_that_looks_like_the_model_is_left_alone() -> None:
    data = b'{"model":"up","response":"\\"model\\":\\"up\\",","done":false}\n' * 2
    assert [f["response"] for f in lines(relayed(data, "generate"))] == ['"model":"up",'] * 2


@pytest.mark.fault("F5")
def test_a_separator_that_the_upstream_left_raw_is_escaped() -> None:
    data = '{"model":"up","response":"a\u2028b\x85","done":false}\n'.encode() * 2
    relay = Relay(answer("generate"))
    out = b"".join(relay.feed(frame(line), []) for line in data.split(b"\n")[:-1])
    assert len(out.decode().splitlines()) == 2
    assert [f["response"] for f in lines(out)] == ["a\u2028b\x85"] * 2


@pytest.mark.promise(21)
@pytest.mark.parametrize(("name", "kind"), [("generate_length", "chat"), ("chat_text", "generate")])
def test_frames_of_the_sibling_route_are_translated(name: str, kind: str) -> None:
    data = (STREAMS / f"{name}.ndjson").read_bytes()
    out = relayed(data, kind)
    assert all(("message" in f) == (kind == "chat") for f in lines(out))

    def essential(events: list[Event]) -> list[Event]:
        return [e for e in events if type(e).__name__ in ("TextDelta", "PartStart", "PartEnd", "Finish")]

    assert essential(decode(out)) == essential(decode(data))


@pytest.mark.promise(18, 19)
@pytest.mark.fault("F14")
def test_a_failure_is_one_line_and_the_last() -> None:
    relay = Relay(answer())
    assert lines(relay.fail(ApiError(Kind.TIMEOUT, "too slow"))) == [{"error": "too slow"}]
    assert relay.fail(ApiError(Kind.TIMEOUT, "again")) == b""
    assert relay.feed(frame('{"message":{"role":"assistant","content":"late"}}'), []) == b""


def test_nothing_passes_after_the_end() -> None:
    data = b'{"model":"up","response":"","done":true}\n{"model":"up","response":"late","done":false}\n'
    assert len(lines(relayed(data, "generate"))) == 1


def test_a_whole_reply_passes_with_only_the_model_changed() -> None:
    body = b'{"model":"up","response":"x","context":[1],"new":1.50,"done":true}'
    assert relay_reply(body, answer("generate", model="mine")) == body.replace(b'"up"', b'"mine"')
