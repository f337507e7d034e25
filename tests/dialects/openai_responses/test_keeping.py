"""The words of kept responses: where events stand in a stream, how one ends, what is said again, and items in lists."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest
from openai import omit
from openai._models import construct_type_unchecked
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import ResponseStreamEvent

from rivermouth.dialects.dialect import Answer, Begun, Ended, Keeps, Turn
from rivermouth.dialects.openai_responses import DIALECT
from rivermouth.dialects.openai_responses.encoder import Encoder
from rivermouth.dialects.openai_responses.keeping import KEEPS
from rivermouth.dialects.openai_responses.replay import CALLS, PARTS
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    ReasoningDelta,
    Signature,
    TextDelta,
    Usage,
)
from rivermouth.ir.request import Keeping, Message, Request, Role, Text
from rivermouth.wire import json as wire
from rivermouth.wire.sse import KEEP_ALIVE, SseReader

CALL: Final = "0123456789abcdef"
REQUEST: Final = Request(
    model="m",
    messages=(Message(Role.USER, (Text("hi"),)),),
    kept=Keeping(store=True, previous="resp_0", background=True),
)
SAID: Final[list[Event]] = [
    PartStart(0, PartKind.REASONING),
    ReasoningDelta(0, "hm"),
    ReasoningDelta(0, "m"),
    Signature(0, "sealed"),
    PartEnd(0),
    PartStart(1, PartKind.TEXT),
    TextDelta(1, "a\n\nb "),
    TextDelta(1, 'data: {"sequence_number":7}'),
    PartEnd(1),
    PartStart(2, PartKind.TOOL, id="call_1", name="look"),
    ArgsDelta(2, '{"at":'),
    ArgsDelta(2, '"sea"}'),
    PartEnd(2),
    PartStart(3, PartKind.REFUSAL),
    TextDelta(3, "no"),
    PartEnd(3),
    Usage(input_tokens=3, output_tokens=5),
]
WHOLE: Final[list[Event]] = [*SAID, Finish(Reason.TOOL_CALLS)]
CUT: Final[list[Event]] = [PartStart(0, PartKind.TEXT), TextDelta(0, "half a"), PartEnd(0), Finish(Reason.LENGTH)]


def answer() -> Answer:
    return Answer(id=CALL, model="m", created_ns=1_000_000_000, surface=DIALECT.surfaces[0], request=REQUEST)


def streamed(events: list[Event]) -> bytes:
    encoder = Encoder(answer())
    return b"".join(encoder.feed([event]) for event in events)


def told(stream: bytes) -> list[dict[str, Any]]:
    reader = SseReader()
    frames = reader.feed(stream)
    assert reader.statistics()["buffered_bytes"] == 0
    events = [json.loads(frame.data) for frame in frames]
    assert [frame.name for frame in frames] == [event["type"] for event in events]
    return events


def as_sdk(event: dict[str, Any]) -> ResponseStreamEvent:
    return construct_type_unchecked(value=event, type_=ResponseStreamEvent)  # type: ignore[arg-type]


def test_the_words_are_those_that_keepers_need() -> None:
    keeps: Keeps = KEEPS
    assert DIALECT.keeps is keeps


# -- where an event stands


def with_keep_alives(stream: bytes) -> bytes:
    blocks = stream.split(b"\n\n")[:-1]
    return b"".join(block + b"\n\n" + KEEP_ALIVE * (n % 3) for n, block in enumerate(blocks))


def reading(data: bytes, first: int, piece: int) -> Callable[[int], bytes]:
    def read(at: int) -> bytes:
        assert first <= at < len(data)
        return data[at : at + piece]

    return read


@pytest.mark.parametrize("piece", [1, 3, 64, 64 * 1024])
def test_an_event_is_found_behind_every_number(piece: int) -> None:
    stream = with_keep_alives(streamed(WHOLE))
    events = told(stream)
    for after in range(-1, len(events)):
        offset = KEEPS.seek(reading(stream, 0, piece), 0, len(stream), after)
        assert told(stream[offset:]) == events[after + 1 :]


def test_a_stream_that_goes_on_is_found_at_every_length() -> None:
    """What is there of the next event is no event yet: the place is where it begins."""
    stream = streamed(WHOLE)
    places = [0, *(n + 2 for n in range(len(stream)) if stream.startswith(b"\n\n", n))]
    for end in range(1, len(stream), 23):
        there = sum(place <= end for place in places) - 1
        for after in range(-1, there):
            assert KEEPS.seek(reading(stream[:end], 0, 4096), 0, end, after) == places[after + 1]


def test_a_number_that_is_not_there_yet_is_refused() -> None:
    stream = streamed(SAID[:3])
    last = told(stream)[-1]["sequence_number"]
    for after in (last + 1, last + 100, 10**17):
        with pytest.raises(ApiError) as refused:
            KEEPS.seek(reading(stream, 0, 64), 0, len(stream), after)
        assert (refused.value.status, refused.value.param) == (400, "starting_after")


def test_events_that_were_forgotten_are_told_from_those_that_were_not() -> None:
    stream = streamed(WHOLE)
    events = told(stream)
    for first in range(1, len(stream), 61):
        left = told(stream[stream.find(b"\n\n", first) + 2 :])
        begins = left[0]["sequence_number"] if left else len(events)
        for after in range(-1, len(events)):
            if left and after >= begins - 1:
                offset = KEEPS.seek(reading(stream, first, 4096), first, len(stream), after)
                assert told(stream[offset:]) == events[after + 1 :]
            else:
                with pytest.raises(ApiError) as gone:
                    KEEPS.seek(reading(stream, first, 4096), first, len(stream), after)
                assert gone.value.code == "events_gone"


def test_a_search_looks_at_few_events() -> None:
    events: list[Event] = [PartStart(0, PartKind.TEXT), *(TextDelta(0, "word ") for _ in range(20_000))]
    stream = streamed(events)
    looks = 0

    def read(at: int) -> bytes:
        nonlocal looks
        looks += 1
        return stream[at : at + 64 * 1024]

    offset = KEEPS.seek(read, 0, len(stream), 12_345)
    assert stream[offset:].startswith(b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta"')
    assert b'"sequence_number":12346,' in stream[offset : offset + 200]
    assert looks < 200


# -- how it begins and ends


def test_the_first_events_are_the_encoders_own() -> None:
    begun = KEEPS.begun(answer())
    stream = streamed(WHOLE)
    assert isinstance(begun, Begun)
    assert stream.startswith(begun.stream)
    assert told(begun.stream)[0]["response"] == json.loads(begun.answer)
    assert KEEPS.headless(stream) == stream[len(begun.stream) :]
    assert KEEPS.headless(begun.stream) is None
    assert KEEPS.headless(KEEP_ALIVE + begun.stream) is None
    assert KEEPS.headless(b"") is None
    said = json.loads(begun.answer)
    assert (said["status"], said["store"], said["background"]) == ("in_progress", True, True)
    assert (said["id"], said["previous_response_id"]) == (f"resp_{CALL}", "resp_0")


@pytest.mark.parametrize("events", [WHOLE, CUT, [*SAID[:7], Error(ApiError(Kind.UPSTREAM, "gone"))]])
def test_the_last_event_says_how_it_ended(events: list[Event]) -> None:
    encoder = Encoder(answer())
    for event in events[:-1]:
        assert KEEPS.ended(encoder.feed([event])) is None
    ended = KEEPS.ended(encoder.feed(events[-1:]) + b"data: [DONE]\n\n" + KEEP_ALIVE)
    last = told(streamed(events))[-1]
    assert ended is not None
    assert (json.loads(ended.answer), ended.number) == (last["response"], last["sequence_number"])


def test_a_stream_that_was_cancelled_says_so_and_keeps_what_it_said() -> None:
    text = 'he said: data: {"type":"response.failed"}\n\nevent: x'
    encoder = Encoder(answer())
    before = encoder.feed([PartStart(0, PartKind.TEXT), TextDelta(0, text)])
    told_end = encoder.feed([Error(ApiError(Kind.CANCELLED, "cancelled by request"))])
    ended = KEEPS.ended(KEEPS.cancelled(told_end))
    assert ended is not None
    response = json.loads(ended.answer)
    assert (response["status"], response["error"]) == ("cancelled", None)
    assert response["output"][0]["content"][0]["text"] == text
    events = told(before + KEEPS.cancelled(told_end))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert KEEPS.cancelled(before) == before
    whole = streamed(WHOLE)
    assert KEEPS.cancelled(whole) == whole


def test_one_that_was_cut_off_by_the_end_of_the_server_has_failed() -> None:
    response = json.loads(KEEPS.interrupted(KEEPS.begun(answer()).answer))
    assert response["status"] == "failed"
    assert response["error"]["code"] == "server_error"
    assert "interrupted" in response["error"]["message"]


# -- said again


@pytest.mark.parametrize("events", [WHOLE, CUT])
def test_what_is_said_again_is_the_same_answer(events: list[Event]) -> None:
    old = streamed(events)
    ended = KEEPS.ended(old)
    assert ended is not None
    again = told(KEEPS.replay(ended, None))
    numbers = [event["sequence_number"] for event in again]
    assert numbers[:-1] == list(range(len(again) - 1))
    assert numbers[-1] == ended.number
    assert again[-1] == told(old)[-1]
    deltas = {"response.output_text.delta", "response.function_call_arguments.delta", "response.refusal.delta"}

    def texts(stream: list[dict[str, Any]]) -> dict[str, str]:
        said: dict[str, str] = {}
        for event in stream:
            if event["type"] in deltas:
                said[event["item_id"]] = said.get(event["item_id"], "") + event["delta"]
        return said

    def others(stream: list[dict[str, Any]]) -> list[dict[str, Any]]:
        drop = ("sequence_number", "response")
        kept = [e for e in stream if not e["type"].endswith(".delta")]
        return [{name: value for name, value in e.items() if name not in drop} for e in kept]

    assert texts(again) == texts(told(old))
    assert others(again) == others(told(old))


@pytest.mark.parametrize("events", [WHOLE, CUT, [*SAID[:7], Error(ApiError(Kind.UPSTREAM, "gone"))]])
def test_the_sdk_takes_what_is_said_again(events: list[Event]) -> None:
    ended = KEEPS.ended(streamed(events))
    assert ended is not None
    state = ResponseStreamState(input_tools=[], text_format=omit)
    for event in told(KEEPS.replay(ended, None)):
        state.handle_event(as_sdk(event))
    done = state._completed_response
    assert (done is not None) == (events is WHOLE)
    if done is not None:
        assert done.output_text == 'a\n\nb data: {"sequence_number":7}'


def test_who_has_had_a_part_gets_the_last_event_alone() -> None:
    ended = Ended(b'{"id":"resp_1","status":"completed","output":[]}', 9)
    assert [e["sequence_number"] for e in told(KEEPS.replay(ended, 8))] == [9]
    assert KEEPS.replay(ended, 9) == b""
    assert KEEPS.replay(ended, 10**9) == b""


def test_every_text_of_an_item_has_its_events() -> None:
    from rivermouth.dialects.openai_responses.items import MANNERS

    spoken = {manner.delta for manner in MANNERS.values() if manner.delta} | {"custom_tool_call_input.delta"}
    assert spoken <= {text.delta for text in (*PARTS.values(), *CALLS.values())}


# -- items


def raw(value: Any) -> dict[str, wire.Raw]:
    return wire.fields(wire.encode(value))


def test_the_input_is_kept_as_it_came() -> None:
    assert json.loads(KEEPS.own(raw({"input": "hi"}), {})) == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    ]
    assert json.loads(KEEPS.own(raw({}), {})) == json.loads(KEEPS.own(raw({"input": None}), {})) == []
    items = [{"role": "user", "content": "a", "new": 1}, {"type": "item_reference", "id": "msg_x"}]
    assert json.loads(KEEPS.own(raw({"input": items}), {})) == items
    found = {"msg_x": b'{"type":"message","id":"msg_x"}'}
    assert json.loads(KEEPS.own(raw({"input": items}), found))[1] == {"type": "message", "id": "msg_x"}


def turn(number: int, *items: Any, output: list[Any] | None = None) -> Turn:
    told_answer = wire.encode({"output": output}) if output is not None else None
    return Turn(f"c{number}", wire.encode(list(items)), told_answer)


HELLO: Final = {"role": "user", "content": "hello"}
SAYS: Final = {"id": "msg_c1_0", "type": "message", "status": "completed", "role": "assistant", "content": []}
HALF: Final = {"id": "fc_c1_1", "type": "function_call", "status": "incomplete", "call_id": "x", "name": "f"}
RESULT: Final = {"type": "function_call_output", "call_id": "x", "output": "3"}


def test_a_talk_is_put_before_the_input_without_calls_that_were_cut_off() -> None:
    fields = raw({"model": "m", "input": "more", "previous_response_id": "resp_c1", "background": True, "user": "u"})
    own = KEEPS.own(fields, {})
    body = json.loads(KEEPS.joined(fields, own, [turn(1, HELLO, output=[SAYS, HALF])]))
    assert body == {"model": "m", "input": [HELLO, SAYS, *json.loads(own)], "user": "u"}


def test_an_item_is_found_by_the_id_that_a_list_shows() -> None:
    first = turn(1, HELLO, RESULT, output=[SAYS])
    shown = page([first])["data"]
    assert [item["id"] for item in shown] == ["msg_c1_0", "fco_c1_i1", "msg_c1_i0"]
    for item, kept in zip(shown, [SAYS, RESULT, HELLO], strict=True):
        assert json.loads(KEEPS.item(first, item["id"]) or b"") == kept
        assert KEEPS.call_id(item["id"]) == "c1"
    assert KEEPS.item(first, "msg_c1_i7") is None
    assert KEEPS.call_id("resp_c1") == "c1"
    assert KEEPS.call_id(KEEPS.answer_id(CALL)) == CALL
    for strange in ("", "c1", "resp_", "resp_a/b", "../x", "msg_c1_i0_2"):
        assert KEEPS.call_id(strange) is None


def page(turns: list[Turn], **query: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(KEEPS.input_items(turns, {name: [value] for name, value in query.items()}))
    return found


def test_a_list_has_what_its_readers_know() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "encrypted_content": "x"}
    said = {"role": "assistant", "content": "I said"}
    items = page([turn(1, HELLO, said, RESULT, thought, {"type": "odd"})], order="asc")["data"]
    assert items[0] == {
        "type": "message",
        "id": "msg_c1_i0",
        "role": "user",
        "status": "completed",
        "content": [{"type": "input_text", "text": "hello"}],
    }
    assert items[1]["content"] == [{"type": "output_text", "text": "I said", "annotations": []}]
    assert items[2] == {**RESULT, "id": "fco_c1_i2", "status": "completed"}
    assert items[3] == {"type": "reasoning", "id": "rs_1", "summary": []}
    assert items[4] == {"type": "odd", "id": "item_c1_i4", "status": "completed"}
    sealed = page([turn(1, thought)], include="reasoning.encrypted_content")["data"][0]
    assert sealed["encrypted_content"] == "x"


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_pages_have_every_item_once_forwards_and_back(order: str, limit: int) -> None:
    turns = [turn(1, HELLO, output=[SAYS]), turn(2, RESULT, HELLO, SAYS, HELLO), turn(3, HELLO)]
    every = [item["id"] for item in page(turns, order=order, limit="100")["data"]]
    assert len(set(every)) == len(every) == 7
    met: list[str] = []
    query = {"order": order, "limit": str(limit)}
    while True:
        found = page(turns, **query)
        met += [item["id"] for item in found["data"]]
        assert (found["first_id"], found["last_id"]) == (found["data"][0]["id"], met[-1])
        if not found["has_more"]:
            break
        query["after"] = met[-1]
    assert met == every
    back: list[str] = []
    query = {"order": order, "limit": str(limit), "before": every[-1]}
    while True:
        found = page(turns, **query)
        back[:0] = [item["id"] for item in found["data"]]
        if not found["has_more"]:
            break
        query["before"] = back[0]
    assert back == every[:-1]
    between = page(turns, order=order, limit="100", after=every[0], before=every[3])
    assert [item["id"] for item in between["data"]] == every[1:3]


def test_a_list_of_nothing_is_one() -> None:
    assert page([turn(1)]) == {"object": "list", "data": [], "first_id": "", "last_id": "", "has_more": False}


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "101"}, "limit"),
        ({"limit": "-1"}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"limit": "٣"}, "limit"),
        ({"order": "up"}, "order"),
        ({"after": "nobody"}, "after"),
        ({"before": "nobody"}, "before"),
    ],
)
def test_a_query_that_is_none_is_refused(query: dict[str, str], param: str) -> None:
    with pytest.raises(ApiError) as refused:
        page([turn(1, HELLO)], **query)
    assert (refused.value.status, refused.value.param) == (400, param)


def test_what_was_deleted_says_so() -> None:
    assert json.loads(KEEPS.deleted("resp_1")) == {"id": "resp_1", "object": "response", "deleted": True}
