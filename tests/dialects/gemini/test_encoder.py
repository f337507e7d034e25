from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given

from rivermouth.dialects.dialect import FINISH_EVERY
from rivermouth.dialects.gemini import DIALECT
from rivermouth.dialects.gemini.encoder import Encoder
from rivermouth.dialects.gemini.opaque import Place, from_wire
from rivermouth.ir.errors import ApiError, Kind
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
    Signature,
    Start,
    TextDelta,
    Usage,
    Warn,
)
from rivermouth.ir.fold import fold, unfold
from rivermouth.ir.lanes import WAITING_CAP_CHARS
from rivermouth.ir.opaque import sealed
from rivermouth.ir.reply import Choice, Reply
from rivermouth.ir.request import File, Image, Reasoning, Text, ToolCall
from tests.dialects.gemini.case import ARRAY, SSE, answer, decode, elements, encode, frames, run
from tests.strategies import event_streams, replies

HELLO: list[Event] = [
    Start("up", "up-model"),
    PartStart(0, PartKind.TEXT),
    TextDelta(0, "Hel"),
    TextDelta(0, 'lo "\u2028'),
    PartEnd(0),
    Usage(7, 5, 4, 0, 2),
    Finish(Reason.STOP),
]
CALL: list[Event] = [
    Start(),
    PartStart(0, PartKind.TOOL, 0, "c1", "f"),
    ArgsDelta(0, '{"a":'),
    ArgsDelta(0, " 1}"),
    PartEnd(0),
    Finish(Reason.TOOL_CALLS),
]


def parts(stream: bytes) -> list[Any]:
    """All parts of all frames but the last."""
    return [p for f in frames(stream)[:-1] for p in f["candidates"][0]["content"]["parts"]]


def thought(*deltas: Event, redacted: bool = False) -> list[Event]:
    return [PartStart(0, PartKind.REASONING, redacted=redacted), *deltas, PartEnd(0)]


@pytest.mark.promise(157, 158)
def test_each_frame_is_a_response_object_with_what_is_new() -> None:
    first, second, last = frames(encode(HELLO))
    assert first == {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "Hel"}]}, "index": 0}],
        "modelVersion": "gpt-x",
        "responseId": "01J",
    }
    assert second["candidates"][0]["content"]["parts"] == [{"text": 'lo "\u2028'}]
    assert last == {
        "candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": 7,
            "candidatesTokenCount": 3,
            "cachedContentTokenCount": 4,
            "thoughtsTokenCount": 2,
            "totalTokenCount": 12,
        },
        "modelVersion": "gpt-x",
        "responseId": "01J",
    }


@pytest.mark.promise(159)
def test_there_is_no_done_and_nothing_but_data_lines() -> None:
    stream = encode(HELLO)
    assert b"[DONE]" not in stream
    assert all(line.startswith(b"data: {") for line in stream.split(b"\n") if line)


@pytest.mark.promise(158)
def test_the_finish_reason_is_in_the_last_frame_alone_or_in_every_one_if_asked() -> None:
    only = [f["candidates"][0].get("finishReason") for f in frames(encode([*CALL[:-1], Finish(Reason.LENGTH)]))]
    assert only == [None, "MAX_TOKENS"]
    every = msgspec.structs.replace(SSE, options=frozenset({FINISH_EVERY}))
    for events in (HELLO, [*CALL[:-1], Finish(Reason.LENGTH)]):
        told = frames(encode(events, surface=every))
        assert {f["candidates"][0]["finishReason"] for f in told[:-1]} == {"STOP"}
        assert {f["candidates"][0]["index"] for f in told} == {0}


@pytest.mark.promise(157, 174)
@pytest.mark.fault("F2")
def test_the_array_is_one_json_document_whose_elements_are_the_frames() -> None:
    stream = encode(HELLO, surface=ARRAY)
    assert elements(stream) == frames(encode(HELLO))
    encoder = Encoder(answer(surface=ARRAY))
    pieces = [encoder.feed([event]) for event in HELLO]
    assert b"".join(pieces) == stream
    assert pieces[2].startswith(b"[{")
    assert pieces[2].endswith(b"},\r\n")
    assert pieces[-1].endswith(b"}]")


@pytest.mark.fault("F14")
@pytest.mark.parametrize("before", [[], HELLO[:3]])
def test_an_error_is_the_last_frame_its_first_member_is_error_and_its_code_a_number(before: list[Event]) -> None:
    events = [*before, Error(ApiError(Kind.OVERLOADED, "busy"))]
    last = frames(encode(events))[-1]
    assert last == {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}
    assert encode(events).split(b"\n\n")[-2].startswith(b'data: {"error":{"code":503')
    assert elements(encode(events, surface=ARRAY))[-1] == last


@pytest.mark.fault("F19")
def test_a_call_is_one_part_with_its_arguments_as_an_object() -> None:
    assert parts(encode(CALL)) == [{"functionCall": {"id": "c1", "name": "f", "args": {"a": 1}}}]
    nothing: list[Event] = [Start(), PartStart(0, PartKind.TOOL, 0, "c1", "f"), PartEnd(0), Finish(Reason.TOOL_CALLS)]
    assert parts(encode(nothing)) == [{"functionCall": {"id": "c1", "name": "f", "args": {}}}]


@pytest.mark.fault("F26")
def test_calls_that_interleave_come_out_whole() -> None:
    events: list[Event] = [
        Start(),
        PartStart(0, PartKind.TOOL, 0, "a", "f"),
        PartStart(1, PartKind.TOOL, 0, "b", "g"),
        ArgsDelta(0, '{"x"'),
        ArgsDelta(1, "{}"),
        PartEnd(1),
        ArgsDelta(0, ":1}"),
        PartEnd(0),
        Finish(Reason.TOOL_CALLS),
    ]
    assert [p["functionCall"] for p in parts(encode(events))] == [
        {"id": "a", "name": "f", "args": {"x": 1}},
        {"id": "b", "name": "g", "args": {}},
    ]


@pytest.mark.parametrize("arguments", ["[1]", '{"a":', "hello", "1"])
def test_arguments_that_are_no_object_are_passed_on_as_text(arguments: str) -> None:
    events: list[Event] = [Start(), PartStart(0, PartKind.TOOL, 0, "c", "f"), ArgsDelta(0, arguments), PartEnd(0)]
    (part,) = parts(encode([*events, Finish(Reason.LENGTH)]))
    assert arguments in part["text"]


@pytest.mark.fault("F35")
def test_what_waits_is_counted() -> None:
    encoder = Encoder(answer())
    encoder.feed([Start(), PartStart(0, PartKind.TOOL, 0, "c", "f"), ArgsDelta(0, '{"a":')])
    encoder.feed([PartStart(1, PartKind.TEXT), TextDelta(1, "abc")])
    assert encoder.statistics() == {"waiting_chars": 8, "cap_chars": WAITING_CAP_CHARS}
    encoder.feed([ArgsDelta(0, "1}"), PartEnd(0)])
    assert encoder.statistics()["waiting_chars"] == 0


@pytest.mark.fault("F26")
def test_a_signature_never_gets_to_another_parts_thought() -> None:
    """Parts may overlap here and not there."""
    events: list[Event] = [
        Start(),
        PartStart(0, PartKind.REASONING),
        ReasoningDelta(0, "a"),
        PartStart(1, PartKind.REASONING, redacted=True),
        Signature(1, "gemini:BB=="),
        PartEnd(1),
        ReasoningDelta(0, "b"),
        Signature(0, "gemini:AA=="),
        PartEnd(0),
        Finish(Reason.STOP),
    ]
    first, second, third, fourth = parts(encode(events))
    assert (first["text"], second["text"], third["thoughtSignature"]) == ("a", "b", "AA==")
    assert sealed(fourth["thoughtSignature"])


@pytest.mark.fault("F23", "F25")
def test_thoughts_are_marked_and_signatures_stand_where_they_stood() -> None:
    signed = encode([Start(), *thought(ReasoningDelta(0, "hm"), Signature(0, "gemini:AA==")), Finish(Reason.STOP)])
    assert parts(signed) == [
        {"text": "hm", "thought": True},
        {"text": "", "thought": True, "thoughtSignature": "AA=="},
    ]
    call: list[Event] = [PartStart(1, PartKind.TOOL, 0, "c", "f"), PartEnd(1)]
    of_call: list[Event] = [Start(), *thought(Signature(0, "gemini-call:AA==")), *call, Finish(Reason.TOOL_CALLS)]
    (only,) = parts(encode(of_call))
    assert (only["functionCall"]["name"], only["thoughtSignature"]) == ("f", "AA==")
    lost = encode([Start(), *thought(Signature(0, "gemini-call:AA==")), Finish(Reason.STOP)])
    assert parts(lost) == [{"text": "", "thought": True, "thoughtSignature": "AA=="}]
    at_end = encode([Start(), *thought(Signature(0, "gemini-end:AA==")), Finish(Reason.STOP)])
    assert parts(at_end) == [{"text": "", "thoughtSignature": "AA=="}]


@pytest.mark.parametrize("redacted", [False, True])
def test_a_foreign_signature_is_base64_that_comes_back_as_itself(redacted: bool) -> None:
    events = [Start(), *thought(Signature(0, "anthropic:Eq+/=="), redacted=redacted), Finish(Reason.STOP)]
    (part,) = parts(encode(events))
    assert from_wire(Place.THOUGHT, part["thoughtSignature"]) == ("anthropic:Eq+/==", redacted)


def test_media_are_inline_or_a_reference() -> None:
    def media(kind: PartKind, delta: MediaDelta) -> Any:
        (part,) = parts(encode([Start(), PartStart(0, kind), delta, PartEnd(0), Finish(Reason.STOP)]))
        return part

    assert media(PartKind.IMAGE, MediaDelta(0, "image/png", "AA==")) == {
        "inlineData": {"mimeType": "image/png", "data": "AA=="}
    }
    assert media(PartKind.IMAGE, MediaDelta(0, url="https://x/y.png?z")) == {
        "fileData": {"mimeType": "image/png", "fileUri": "https://x/y.png?z"}
    }
    assert media(PartKind.FILE, MediaDelta(0, url="https://x/y")) == {"fileData": {"fileUri": "https://x/y"}}


def test_choices_have_their_own_index_and_reason() -> None:
    events: list[Event] = [
        Start(),
        PartStart(0, PartKind.TEXT, 0),
        PartStart(1, PartKind.TEXT, 1),
        TextDelta(0, "a"),
        TextDelta(1, "b"),
        PartEnd(0),
        PartEnd(1),
        Finish(Reason.STOP, None, (Reason.STOP, Reason.CONTENT_FILTER)),
    ]
    first, second, last = frames(encode(events))
    assert (first["candidates"][0]["index"], second["candidates"][0]["index"]) == (0, 1)
    assert [(c["index"], c["finishReason"]) for c in last["candidates"]] == [(0, "STOP"), (1, "SAFETY")]


def test_no_part_of_any_frame_is_empty() -> None:
    """An empty part makes the SDK's chat drop the whole turn."""
    silent: list[Event] = [Start(), *thought(Warn("x")), Finish(Reason.LENGTH)]
    for events in (HELLO, CALL, silent):
        for each in frames(encode(events)):
            assert all(p for c in each["candidates"] for p in c["content"]["parts"])
            assert all(c["content"]["parts"] for c in each["candidates"])


@given(event_streams(2, noise=True))
def test_the_array_says_what_the_events_say_in_every_stream(events: list[Event]) -> None:
    assert elements(encode(events, surface=ARRAY)) == frames(encode(events))
    assert decode(encode(events, surface=ARRAY), n=2) == decode(encode(events), n=2)


@given(replies(2))
def test_a_whole_reply_has_the_parts_of_its_stream(reply: Reply) -> None:
    whole = json.loads(DIALECT.encode_reply(reply, answer()))
    (last,) = [f for f in frames(encode(unfold(reply))) if "finishReason" in f["candidates"][0]]
    assert [c["finishReason"] for c in whole["candidates"]] == [c["finishReason"] for c in last["candidates"]]
    assert whole.get("usageMetadata") == last.get("usageMetadata")
    assert (whole["modelVersion"], whole["responseId"]) == ("gpt-x", "01J")


def test_a_reply_keeps_signatures_on_their_parts() -> None:
    said = (
        Reasoning("hm", "gemini-call:C"),
        ToolCall("1", "f", "{}"),
        Text("a"),
        Reasoning("", "gemini-text:T"),
        Reasoning("so", "gemini:H"),
        Reasoning("", "gemini-end:E"),
        Image("image/png", "AA=="),
        File("text/plain", text="notes"),
    )
    body = DIALECT.encode_reply(Reply(choices=(Choice(said, Reason.TOOL_CALLS),)), answer())
    strays = (Reasoning("", "gemini-call:C"), Text("a"), Reasoning("", "gemini-call:D"))
    alone = DIALECT.encode_reply(Reply(choices=(Choice(strays, Reason.STOP),)), answer())
    assert json.loads(alone)["candidates"][0]["content"]["parts"] == [
        {"text": "a"},
        {"text": "", "thought": True, "thoughtSignature": "C"},
        {"text": "", "thought": True, "thoughtSignature": "D"},
    ]
    assert json.loads(body)["candidates"][0]["content"]["parts"] == [
        {"text": "hm", "thought": True},
        {"functionCall": {"id": "1", "name": "f", "args": {}}, "thoughtSignature": "C"},
        {"text": "a", "thoughtSignature": "T"},
        {"text": "so", "thought": True, "thoughtSignature": "H"},
        {"text": "", "thoughtSignature": "E"},
        {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
        {"text": "notes"},
    ]
    back = DIALECT.parse_reply(body).choices[0].parts
    assert back == (*said[:7], Text("notes"))


@pytest.mark.fault("F10")
def test_a_reply_without_a_finish_reason_or_with_an_error_is_none() -> None:
    for body in (b'{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}', b"{}", b'{"error":{"code":500}}'):
        with pytest.raises(ApiError):
            DIALECT.parse_reply(body)
    assert fold(run({"candidates": [{"finishReason": "STOP"}]})).choices[0].parts == ()
