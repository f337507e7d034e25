from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.cohere_v2.decoder import CALLS_CAP, Decoder
from rivermouth.ir.errors import Kind, WireError
from rivermouth.ir.events import (
    Error,
    Event,
    Finish,
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
from rivermouth.ir.grammar import Grammar
from rivermouth.ir.request import Request, ToolCall
from rivermouth.wire.frame import Frame


def frame(name: str, **members: Any) -> Frame:
    return Frame(name, json.dumps({"type": name, **members}).encode())


START = frame("message-start", id="m1")


def opening(index: int, **content: Any) -> Frame:
    return frame("content-start", index=index, delta={"message": {"content": content}})


def content(index: int | None, **said: Any) -> Frame:
    return frame("content-delta", index=index, delta={"message": {"content": said}})


def closing(index: int) -> Frame:
    return frame("content-end", index=index)


def plan(text: str) -> Frame:
    return frame("tool-plan-delta", delta={"message": {"tool_plan": text}})


def call(index: int | None, identity: str | None, name: str | None, arguments: Any = "") -> Frame:
    told = {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}
    return frame("tool-call-start", index=index, delta={"message": {"tool_calls": told}})


def args(index: int | None, said: str | None) -> Frame:
    return frame("tool-call-delta", index=index, delta={"message": {"tool_calls": {"function": {"arguments": said}}}})


def ending(word: str | None, **delta: Any) -> Frame:
    return frame("message-end", delta={"finish_reason": word, **delta})


def run(*given: Frame, request: Request | None = None) -> list[Event]:
    """All events of the frames and of the end of the stream, after the grammar has agreed to them."""
    decoder = Decoder(request)
    events = [e for f in given for e in decoder.feed(f)] + decoder.eof()
    Grammar().feed_all(events)
    return events


@pytest.mark.fault("F10")
def test_an_end_without_a_reason_is_no_good_end() -> None:
    for end in (ending(None), frame("message-end")):
        last = run(START, content(0, text="a"), end)[-1]
        assert isinstance(last, Error)
        assert last.error.kind is Kind.TRUNCATED


@pytest.mark.fault("F11")
@pytest.mark.parametrize(
    ("word", "error", "kind", "message"),
    [
        ("ERROR", "it broke", Kind.UPSTREAM, "it broke"),
        ("ERROR", None, Kind.UPSTREAM, "the upstream reported an error"),
        ("TIMEOUT", None, Kind.TIMEOUT, "the upstream reported an error"),
        ("COMPLETE", "it broke", Kind.UPSTREAM, "it broke"),
        (None, {"message": "it broke"}, Kind.UPSTREAM, "it broke"),
    ],
)
@pytest.mark.parametrize("before", [[], [START], [START, content(0, text="a")]])
def test_an_error_at_the_end_is_an_error(
    before: list[Frame], word: str | None, error: Any, kind: Kind, message: str
) -> None:
    events = run(*before, ending(word, error=error, usage={"tokens": {"input_tokens": 3}}), content(0, text="more"))
    assert isinstance(events[-1], Error)
    assert (events[-1].error.kind, events[-1].error.message) == (kind, message)
    assert Usage(input_tokens=3) in events, "what a failed call cost is counted all the same"


@pytest.mark.fault("F11")
@pytest.mark.parametrize("data", [b'{"message":"broken"}', b'{"error":{"message":"broken"}}', b'{"error":"broken"}'])
def test_an_error_object_is_an_error(data: bytes) -> None:
    for odd in (Frame("", data), Frame("error", data)):
        last = run(START, odd)[-1]
        assert isinstance(last, Error)
        assert last.error.message == "broken"
    unread = run(START, Frame("error", b"oh no"))[-1]
    assert isinstance(unread, Error)
    assert unread.error.message == "oh no"


@pytest.mark.fault("F21")
def test_a_block_that_says_nothing_is_no_part() -> None:
    events = run(
        START,
        opening(0, type="text", text=""),
        content(0, text=""),
        closing(0),
        opening(1, type="thinking", thinking=None),
        closing(1),
        plan(""),
        ending("COMPLETE"),
    )
    assert not any(isinstance(e, PartStart | PartEnd) for e in events)
    assert fold(events).choices[0].parts == ()


@pytest.mark.fault("F22")
def test_text_in_the_frame_that_opens_a_block_is_delivered() -> None:
    events = run(START, opening(0, type="text", text="He"), content(0, text="llo"), ending("COMPLETE"))
    assert [e for e in events if isinstance(e, PartStart | TextDelta | PartEnd)] == [
        PartStart(0, PartKind.TEXT),
        TextDelta(0, "He"),
        TextDelta(0, "llo"),
        PartEnd(0),
    ]


@pytest.mark.fault("F23")
def test_thinking_in_a_text_block_is_reasoning_and_message_start_counts_once() -> None:
    events = run(
        START,
        opening(0, type="text", text=""),
        content(0, thinking="hm"),
        START,
        content(0, text="a"),
        ending("COMPLETE"),
    )
    assert events[:-1] == [
        Start("m1"),
        PartStart(0, PartKind.REASONING),
        ReasoningDelta(0, "hm"),
        PartEnd(0),
        PartStart(1, PartKind.TEXT),
        TextDelta(1, "a"),
        PartEnd(1),
    ]


def test_a_delta_that_says_both_says_the_thinking_first() -> None:
    events = run(START, content(0, text="a"), content(0, thinking="hm", text="b"), ending("COMPLETE"))
    assert [(type(e).__name__, e.text) for e in events if isinstance(e, TextDelta | ReasoningDelta)] == [
        ("TextDelta", "a"),
        ("ReasoningDelta", "hm"),
        ("TextDelta", "b"),
    ]


def test_the_plan_is_text_that_ends_before_the_calls() -> None:
    events = run(START, plan("I will"), plan(" look."), call(0, "c", "f"), args(0, "{}"), ending("TOOL_CALL"))
    assert fold(events).choices[0].text == "I will look."
    assert events.index(PartEnd(0)) < events.index(PartStart(1, PartKind.TOOL, 0, "c", "f"))


@pytest.mark.fault("F19")
@given(st.lists(st.integers(0, 30), max_size=6))
def test_arguments_do_not_depend_on_how_they_were_split(cuts: list[int]) -> None:
    whole = '{"city":"Zürich","n":[1,2]}'
    edges = [0, *sorted(min(c, len(whole)) for c in cuts), len(whole)]
    pieces = [args(0, whole[a:b]) for a, b in itertools.pairwise(edges)]
    events = run(START, call(0, "t1", "f"), *pieces, ending("TOOL_CALL"))
    assert fold(events).choices[0].parts == (ToolCall("t1", "f", whole),)


@pytest.mark.fault("F19", "F20")
def test_missing_and_repeated_ids_and_indexes() -> None:
    events = run(
        START,
        call(None, None, "f", None),
        args(None, "{}"),
        call(None, "same", "g", {"a": 1}),
        call(1, "same", "h"),
        args(1, '{"b":2}'),
        frame("tool-call-end"),
        call(7, "", "i"),
        frame("tool-call-end", index=7),
        ending("COMPLETE"),
    )
    assert fold(events).choices[0].parts == (
        ToolCall("call_m1_0", "f", "{}"),
        ToolCall("same", "g", '{"a":1}'),
        ToolCall("call_m1_2", "h", '{"b":2}'),
        ToolCall("call_m1_3", "i"),
    )


@pytest.mark.fault("F19")
@pytest.mark.fault("F35")
def test_calls_that_are_open_are_bounded() -> None:
    decoder = Decoder()
    for index in range(CALLS_CAP):
        decoder.feed(call(index, None, "f"))
    decoder.feed(frame("tool-call-end", index=0))
    decoder.feed(call(CALLS_CAP, None, "f"))
    with pytest.raises(WireError):
        decoder.feed(call(CALLS_CAP + 1, None, "f"))


def test_several_calls_in_one_frame_all_survive() -> None:
    both = [{"id": "a", "function": {"name": "f"}}, {"id": "b", "function": {"name": "g"}}]
    events = run(START, frame("tool-call-start", index=0, delta={"message": {"tool_calls": both}}), ending("TOOL_CALL"))
    assert fold(events).choices[0].parts == (ToolCall("a", "f"), ToolCall("b", "g"))


@pytest.mark.fault("F24")
@pytest.mark.parametrize(
    ("word", "called", "reason"),
    [
        ("COMPLETE", True, Reason.TOOL_CALLS),
        ("TOOL_CALL", True, Reason.TOOL_CALLS),
        ("TOOL_CALL", False, Reason.STOP),
        ("MAX_TOKENS", True, Reason.LENGTH),
        ("STOP_SEQUENCE", False, Reason.STOP),
    ],
)
def test_the_reason_follows_what_was_emitted(word: str, called: bool, reason: Reason) -> None:
    said = call(0, "t", "f") if called else content(0, text="a")
    assert run(START, said, ending(word))[-1] == Finish(reason)


@pytest.mark.parametrize(("stop", "told"), [((), None), (("END",), "END"), (("A", "B"), None)])
def test_a_stop_sequence_is_named_where_there_was_only_one(stop: tuple[str, ...], told: str | None) -> None:
    request = Request(model="m", messages=(), stop=stop)
    assert run(START, content(0, text="a"), ending("STOP_SEQUENCE"), request=request)[-1] == Finish(Reason.STOP, told)
    assert run(START, content(0, text="a"), ending("COMPLETE"), request=request)[-1] == Finish(Reason.STOP)


def test_an_unknown_reason_is_a_stop_with_a_warning() -> None:
    events = run(START, content(0, text="a"), ending("TIRED"))
    assert events[-1] == Finish(Reason.STOP)
    assert any(isinstance(e, Warn) and "TIRED" in e.message for e in events)


@pytest.mark.fault("F28", "F29")
@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"tokens": {"input_tokens": 9.0, "output_tokens": 0.0}, "cached_tokens": 4}, Usage(9, 0, 4)),
        ({"billed_units": {"input_tokens": 5, "output_tokens": 2}, "tokens": {"input_tokens": 9}}, Usage(9, 2)),
        ({"billed_units": {"input_tokens": 5}}, Usage(5)),
    ],
)
def test_tokens_are_what_was_read_and_null_is_not_zero(usage: Any, counted: Usage) -> None:
    events = run(START, content(0, text="a"), ending("COMPLETE", usage=usage))
    assert [e for e in events if isinstance(e, Usage)] == [counted]
    assert not [e for e in run(START, ending("COMPLETE", usage={"tokens": None})) if isinstance(e, Usage)]


def test_citations_and_what_is_newer_pass_as_unknown() -> None:
    odd = [
        frame("citation-start", index=0, delta={"message": {"citations": {"start": 0}}}),
        frame("citation-end", index=0),
        opening(3, type="hologram", text="x"),
        content(3, text="inside"),
        closing(3),
        frame("weather", x=1),
    ]
    events = run(START, *odd, content(1, text="a"), ending("COMPLETE"))
    assert [(e.name, e.data) for e in events if isinstance(e, Unknown)] == [(f.name, f.data) for f in odd]
    assert fold(events).choices[0].text == "a"


def test_nothing_follows_the_end() -> None:
    decoder = Decoder()
    for f in (START, content(0, text="a"), ending("COMPLETE")):
        decoder.feed(f)
    assert decoder.feed(ending("ERROR")) == decoder.feed(Frame("", b"[DONE]")) == decoder.eof() == []


def test_done_alone_is_no_end() -> None:
    last = run(START, content(0, text="a"), Frame("", b"[DONE]"))[-1]
    assert isinstance(last, Error)
    assert last.error.kind is Kind.TRUNCATED


@pytest.mark.parametrize(
    "bad",
    [
        Frame("content-delta", b"{"),
        Frame("content-delta", b'{"delta":{"message":{"content":{"text":7}}}}'),
        Frame("content-start", b'{"index":"0"}'),
        Frame("tool-call-start", b"{}"),
        call(0, "c", None),
        args(4, "{}"),
        Frame("message-end", b"[]"),
        Frame("", b"hello"),
    ],
)
def test_a_malformed_frame_is_a_wire_error(bad: Frame) -> None:
    decoder = Decoder()
    decoder.feed(START)
    with pytest.raises(WireError):
        decoder.feed(bad)


indexes = st.integers(-1, 2) | st.none()
values = st.one_of(st.none(), st.integers(-3, 3), st.text(max_size=4), st.just({}), st.just([]))
texts = st.one_of(st.text(max_size=4), values)
contents = st.fixed_dictionaries(
    {}, optional={"type": st.sampled_from(("text", "thinking", "x", None)), "text": texts, "thinking": texts}
)
functions = st.fixed_dictionaries({}, optional={"name": texts, "arguments": texts})
calls = st.fixed_dictionaries({}, optional={"id": texts, "function": functions})
messages = st.fixed_dictionaries(
    {}, optional={"content": contents, "tool_plan": texts, "tool_calls": calls | st.lists(calls, max_size=2)}
)
deltas = st.fixed_dictionaries(
    {},
    optional={
        "message": messages,
        "finish_reason": st.sampled_from(("COMPLETE", "ERROR", "TOOL_CALL", None, "odd")),
        "error": values,
        "usage": st.fixed_dictionaries({}, optional={"tokens": values, "cached_tokens": values}),
    },
)
NAMES = (
    "", "message", "message-start", "content-start", "content-delta", "content-end", "tool-plan-delta",
    "tool-call-start", "tool-call-delta", "tool-call-end", "message-end", "error", "x",
)  # fmt: skip
frame_objects = st.fixed_dictionaries(
    {}, optional={"type": st.sampled_from(NAMES), "index": indexes, "delta": deltas, "id": texts, "message": values}
)
frames = st.builds(
    lambda name, data: Frame(name, data if isinstance(data, bytes) else json.dumps(data).encode()),
    st.sampled_from(NAMES),
    frame_objects | st.binary(max_size=6),
)


@given(st.lists(frames, max_size=25))
def test_random_frames_raise_nothing_but_wire_errors_and_keep_the_grammar(some: list[Frame]) -> None:
    decoder, grammar = Decoder(), Grammar()
    for each in some:
        try:
            events = decoder.feed(each)
        except WireError:
            continue
        grammar.feed_all(events)
    grammar.feed_all(decoder.eof())
    assert grammar.done
