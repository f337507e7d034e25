from __future__ import annotations

import json
from typing import Any

import msgspec

from rivermouth.dialects.openai_responses import DIALECT
from rivermouth.dialects.openai_responses.encoder import Encoder
from rivermouth.dialects.openai_responses.relay import Relay, relay_reply
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Error, Event, Finish, Reason, Start
from rivermouth.ir.request import Keeping
from rivermouth.wire.frame import Frame
from tests.dialects.openai_responses.case import answer, frames, parse, text
from tests.dialects.recordings import RECORDINGS

HOSTED = next(p for p in RECORDINGS if p.parent.parent.name == DIALECT.name and p.stem == "hosted_tool")
BARE = next(p for p in RECORDINGS if p.parent.parent.name == DIALECT.name and p.stem == "bare")


def relayed(data: bytes, relay: Relay) -> bytes:
    decoder = DIALECT.decoder(parse())
    return b"".join(relay.feed(frame, decoder.feed(frame)) for frame in DIALECT.reader().feed(data))


def test_all_passes_but_for_the_id_and_the_model() -> None:
    data = HOSTED.read_bytes()
    out = relayed(data, Relay(answer(model="asked")))
    mine = data.replace(b'"id":"resp_68a1f0c2d4e8819b"', b'"id":"resp_01J"').replace(b'"up-model"', b'"asked"')
    assert out == mine


def test_what_is_kept_of_it_is_ours_to_say() -> None:
    kept = Keeping(store=True, previous="resp_0")
    relay = Relay(answer(msgspec.structs.replace(parse(), kept=kept)))
    for event in frames(relayed(HOSTED.read_bytes(), relay)):
        if "response" in event:
            assert (event["response"]["store"], event["response"]["previous_response_id"]) == (True, "resp_0")


def test_events_without_a_name_get_theirs() -> None:
    out = relayed(BARE.read_bytes(), Relay(answer()))
    names = [line for line in out.decode().split("\n") if line.startswith("event: ")]
    assert names[0] == "event: response.created"
    assert names[-1] == "event: response.completed"
    assert b"[DONE]" not in out


def test_a_failure_goes_on_with_the_numbers_and_is_ours() -> None:
    sent = Encoder(answer(id="theirs")).feed([Start(), *text(0, "Deep")[:2]])
    relay = Relay(answer())
    out = relayed(sent, relay) + relay.fail(ApiError(Kind.TRUNCATED, "cut"))
    seen = frames(out)
    assert (seen[-1]["type"], seen[-1]["response"]["id"]) == ("response.failed", "resp_01J")
    assert {e["response"]["id"] for e in seen if "response" in e} == {"resp_01J"}
    assert relay.fail(ApiError(Kind.TRUNCATED, "again")) == b""


def test_the_upstreams_failure_is_said_in_our_words() -> None:
    events: list[Event] = [Start(), *text(0, "a"), Error(ApiError(Kind.OVERLOADED, "busy"))]
    out = relayed(Encoder(answer(id="theirs")).feed(events), Relay(answer()))
    assert frames(out)[-1]["response"]["error"]["message"] == "busy"


def test_a_failure_before_anything_begins_the_stream() -> None:
    seen = frames(Relay(answer()).fail(ApiError(Kind.NETWORK, "gone")))
    assert [e["type"] for e in seen] == ["response.created", "response.failed"]


def test_line_breaks_in_a_frame_stay_in_its_line() -> None:
    event: dict[str, Any] = {"type": "response.web_search_call.searching", "x": "a\u2028b"}
    data = json.dumps(event, indent=1, ensure_ascii=False).encode()
    out = Relay(answer()).feed(Frame(event["type"], data), [])
    assert len(out.decode().splitlines()) == 3
    assert json.loads(out.split(b"data: ")[1]) == event


def test_a_whole_reply() -> None:
    encoder = Encoder(answer(id="theirs", model="up"))
    encoder.feed([Start(), *text(0, "a"), Finish(Reason.STOP)])
    passed = json.loads(relay_reply(encoder.response, answer(model="asked")))
    assert (passed["id"], passed["model"]) == ("resp_01J", "asked")
    assert {**passed, "id": "resp_theirs", "model": "up"} == json.loads(encoder.response)
