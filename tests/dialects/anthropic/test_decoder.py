from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.anthropic import DIALECT
from rivermouth.dialects.anthropic.decoder import Decoder
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
    Signature,
    Start,
    TextDelta,
    Unknown,
    Usage,
    Warn,
)
from rivermouth.ir.fold import fold
from rivermouth.ir.grammar import Grammar
from rivermouth.ir.request import ToolCall
from tests.dialects.anthropic.case import frame
from tests.dialects.conformance import Decoded

START = frame("message_start", {"type": "message_start", "message": {"id": "msg_1", "model": "claude-x"}})
STOP = frame("message_stop", {"type": "message_stop"})


def block(index: int, **content: Any) -> Any:
    return frame("content_block_start", {"type": "content_block_start", "index": index, "content_block": content})


def delta(index: int, **content: Any) -> Any:
    return frame("content_block_delta", {"type": "content_block_delta", "index": index, "delta": content})


def closing(index: int) -> Any:
    return frame("content_block_stop", {"type": "content_block_stop", "index": index})


def ending(stop_reason: str | None, **usage: Any) -> Any:
    return frame("message_delta", {"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": usage})


def text(index: int, said: str) -> Any:
    return delta(index, type="text_delta", text=said)


def args(index: int, said: str | None) -> Any:
    return delta(index, type="input_json_delta", partial_json=said)


def run(*frames: Any) -> list[Event]:
    """All events of the frames and of the end of the stream, after the grammar has agreed to them."""
    decoder = Decoder()
    events = [e for f in frames for e in decoder.feed(f)] + decoder.eof()
    Grammar().feed_all(events)
    return events


@pytest.mark.fault("F10")
def test_message_stop_without_a_stop_reason_is_no_good_end() -> None:
    events = run(START, block(0, type="text", text=""), text(0, "a"), closing(0), STOP)
    assert isinstance(events[-1], Error)
    assert events[-1].error.kind is Kind.TRUNCATED
    assert "part 0" in events[-1].error.message


@pytest.mark.fault("F11")
@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("error", {"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, Kind.OVERLOADED),
        ("error", {"type": "error", "error": {"type": "rate_limit_error", "message": "m"}}, Kind.RATE_LIMITED),
        ("error", {"type": "error", "error": {"type": "brand_new_error", "message": "m"}}, Kind.UPSTREAM),
        ("", {"type": "error", "error": {"type": "api_error", "message": "m"}}, Kind.UPSTREAM),
        ("", {"error": {"message": "m"}}, Kind.UPSTREAM),
        ("", {"error": "m"}, Kind.UPSTREAM),
    ],
)
@pytest.mark.parametrize("before", [[], [START, text(0, "a")]])
def test_an_error_frame_ends_the_stream_with_its_kind(name: str, data: Any, kind: Kind, before: list[Any]) -> None:
    events = run(*before, frame(name, data), text(0, "more"), ending("end_turn"), STOP)
    assert isinstance(events[-1], Error)
    assert (events[-1].error.kind, events[-1].error.message) == (kind, "m")
    assert not any(isinstance(e, Finish) for e in events)


@pytest.mark.fault("F11")
def test_an_error_frame_that_cannot_be_read_is_an_error_all_the_same() -> None:
    events = run(START, frame("error", b"oh no"))
    assert isinstance(events[-1], Error)
    assert events[-1].error.kind is Kind.UPSTREAM


@pytest.mark.fault("F21")
def test_a_block_that_says_nothing_is_no_part() -> None:
    events = run(
        START,
        block(0, type="text", text=""),
        text(0, ""),
        closing(0),
        block(1, type="thinking", thinking="", signature=""),
        closing(1),
        ending("end_turn", output_tokens=0),
        STOP,
    )
    assert not any(isinstance(e, PartStart | PartEnd) for e in events)
    assert fold(events).choices[0].parts == ()


@pytest.mark.fault("F22")
def test_text_in_the_frame_that_opens_a_block_is_delivered() -> None:
    events = run(START, block(0, type="text", text="He"), text(0, "llo"), ending("end_turn"), STOP)
    assert [e for e in events if isinstance(e, PartStart | TextDelta | PartEnd)] == [
        PartStart(0, PartKind.TEXT),
        TextDelta(0, "He"),
        TextDelta(0, "llo"),
        PartEnd(0),
    ]


@pytest.mark.fault("F23")
def test_thinking_in_a_text_block_is_reasoning_and_message_start_counts_once() -> None:
    thought = delta(0, type="thinking_delta", thinking="hm")
    events = run(START, block(0, type="text", text=""), thought, START, text(0, "a"), ending("end_turn"), STOP)
    assert [e for e in events if not isinstance(e, Finish)] == [
        Start("msg_1", "claude-x"),
        PartStart(0, PartKind.REASONING),
        ReasoningDelta(0, "hm"),
        PartEnd(0),
        PartStart(1, PartKind.TEXT),
        TextDelta(1, "a"),
        PartEnd(1),
    ]


@pytest.mark.fault("F19")
@given(st.lists(st.integers(0, 30), max_size=6))
def test_arguments_do_not_depend_on_how_they_were_split(cuts: list[int]) -> None:
    whole = '{"city":"Zürich","n":[1,2]}'
    edges = [0, *sorted(min(c, len(whole)) for c in cuts), len(whole)]
    pieces = [args(0, whole[a:b]) for a, b in itertools.pairwise(edges)]
    events = run(START, block(0, type="tool_use", id="t1", name="f", input={}), *pieces, ending("tool_use"), STOP)
    assert fold(events).choices[0].parts == (ToolCall("t1", "f", whole),)


@pytest.mark.fault("F19", "F20")
def test_a_call_whole_in_its_first_frame_is_not_lost_and_not_doubled() -> None:
    opening = block(0, type="tool_use", id="t1", name="f", input={"a": 1})
    alone = run(START, opening, args(0, None), closing(0), ending("tool_use"), STOP)
    doubled = run(START, opening, args(0, '{"a":1}'), closing(0), ending("tool_use"), STOP)
    assert fold(alone).choices[0].parts == fold(doubled).choices[0].parts == (ToolCall("t1", "f", '{"a":1}'),)


@pytest.mark.fault("F20")
def test_missing_and_repeated_ids_are_minted_once_and_index_gaps_do_not_matter() -> None:
    events = run(
        START,
        block(3, type="tool_use", name="f", input=None),
        closing(3),
        block(7, type="tool_use", id="same", name="g", input={}),
        closing(7),
        block(7, type="tool_use", id="same", name="h", input={}),
        closing(7),
        ending("tool_use"),
        STOP,
    )
    calls = fold(events).choices[0].parts
    assert calls == (ToolCall("toolu_1_0", "f"), ToolCall("same", "g"), ToolCall("toolu_1_2", "h"))


def test_a_block_index_used_twice_closes_the_first() -> None:
    events = run(
        START,
        block(0, type="text", text="a"),
        block(0, type="tool_use", id="t", name="f", input={}),
        block(0, type="thinking", thinking="x", signature="sig"),
        block(0, type="text", text="b"),
        ending("end_turn"),
        STOP,
    )
    kinds = [e.kind for e in events if isinstance(e, PartStart)]
    assert kinds == [PartKind.TEXT, PartKind.TOOL, PartKind.REASONING, PartKind.TEXT]
    assert Signature(2, "anthropic:sig") in events


@pytest.mark.fault("F24")
@pytest.mark.parametrize(
    ("word", "called", "reason"),
    [
        ("end_turn", True, Reason.TOOL_CALLS),
        ("tool_use", True, Reason.TOOL_CALLS),
        ("tool_use", False, Reason.STOP),
        ("max_tokens", True, Reason.LENGTH),
        ("refusal", False, Reason.CONTENT_FILTER),
        ("pause_turn", False, Reason.STOP),
    ],
)
def test_the_reason_follows_what_was_emitted(word: str, called: bool, reason: Reason) -> None:
    said = block(0, type="tool_use", id="t", name="f", input={}) if called else text(0, "a")
    assert run(START, said, ending(word), STOP)[-1] == Finish(reason)


def test_an_unknown_stop_reason_is_a_stop_with_a_warning() -> None:
    events = run(START, text(0, "a"), ending("tired"), STOP)
    assert events[-1] == Finish(Reason.STOP)
    assert any(isinstance(e, Warn) and "tired" in e.message for e in events)


@pytest.mark.fault("F28", "F29")
def test_cached_tokens_are_in_the_input_and_null_is_not_zero() -> None:
    started = {"input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": None}
    begin = frame("message_start", {"message": {"id": "msg_1", "usage": {**started, "output_tokens": 1}}})
    events = run(begin, text(0, "a"), ending("end_turn", output_tokens=4), STOP)
    assert [e for e in events if isinstance(e, Usage)] == [
        Usage(input_tokens=12, output_tokens=1, cached_tokens=7),
        Usage(input_tokens=12, output_tokens=4, cached_tokens=7),
    ]


@pytest.mark.fault("F27")
def test_usage_that_comes_alone_or_late_is_merged() -> None:
    late = frame("message_delta", {"type": "message_delta", "usage": {"output_tokens": 9, "input_tokens": 3}})
    events = run(START, text(0, "a"), ending("end_turn", output_tokens=4), late, STOP)
    assert fold(events).usage == Usage(input_tokens=3, output_tokens=9)
    assert isinstance(events[-1], Finish)


def test_nothing_follows_the_end() -> None:
    decoder = Decoder()
    for f in (START, text(0, "a"), ending("end_turn"), STOP):
        decoder.feed(f)
    assert decoder.feed(STOP) == decoder.feed(frame("error", {"error": {"message": "x"}})) == decoder.eof() == []


@pytest.mark.parametrize(
    "bad",
    [
        frame("content_block_delta", b"{"),
        frame("content_block_delta", {"index": 0}),
        frame("content_block_delta", {"index": 0, "delta": {"type": "text_delta"}}),
        frame("content_block_start", {"index": "0", "content_block": {"type": "text"}}),
        frame("content_block_start", {"index": 0, "content_block": {"type": "tool_use", "id": "t"}}),
        frame("message_delta", b"[]"),
        frame("message_start", {}),
        frame("", b"hello"),
        args(4, "{}"),
    ],
)
def test_a_malformed_frame_is_a_wire_error(bad: Any) -> None:
    decoder = Decoder()
    decoder.feed(START)
    with pytest.raises(WireError):
        decoder.feed(bad)


def test_blocks_deltas_and_events_of_a_later_version_pass_as_unknown() -> None:
    odd = [
        block(0, type="hologram", text=7),
        text(0, "inside"),
        closing(0),
        delta(1, type="smell_delta", smell="rose"),
        frame("weather", b"not json"),
    ]
    events = run(START, *odd, text(2, "a"), ending("end_turn"), STOP)
    assert [(e.name, e.data) for e in events if isinstance(e, Unknown)] == [(f.name, f.data) for f in odd]
    assert fold(events).choices[0].text == "a"


@pytest.mark.fault("F4")
def test_a_frame_of_a_megabyte_passes_whole_and_in_linear_time() -> None:
    said = "x" * 1_000_000
    stream = b"".join(b"event: %b\ndata: %b\n\n" % (f.name.encode(), f.data) for f in (START, text(0, said)))
    decoder = Decoded(DIALECT)
    events = [e for at in range(0, len(stream), 4096) for e in decoder.feed(stream[at : at + 4096])]
    assert events[-1] == TextDelta(0, said)


indexes = st.integers(-1, 2)
values = st.one_of(st.none(), st.integers(-3, 3), st.text(max_size=4), st.just({}), st.just([]), st.just({"a": 1}))
BLOCK_TYPES = ("text", "thinking", "redacted_thinking", "tool_use", "server_tool_use")
DELTA_TYPES = ("text_delta", "thinking_delta", "input_json_delta", "signature_delta", "citations_delta")
words = st.sampled_from(BLOCK_TYPES + DELTA_TYPES)
said = st.one_of(st.text(max_size=4), values)
inner = st.fixed_dictionaries(
    {"type": words},
    optional={
        "text": said,
        "thinking": said,
        "signature": said,
        "partial_json": said,
        "data": said,
        "id": said,
        "name": said,
        "input": values,
        "stop_reason": st.sampled_from(("end_turn", "tool_use", None, "odd")),
        "stop_sequence": values,
    },
)
usages = st.fixed_dictionaries({}, optional={"input_tokens": values, "output_tokens": values})
frame_objects = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(("ping", "error", "message_stop", "message_delta", "message_start", "x")),
        "index": indexes,
        "delta": inner,
        "content_block": inner,
        "message": st.fixed_dictionaries({}, optional={"id": said, "model": said, "usage": usages}),
        "usage": usages,
        "error": values,
    },
)
names = st.sampled_from(
    ("", "message", "ping", "error", "message_start", "message_delta", "message_stop", "x")
    + ("content_block_start", "content_block_delta", "content_block_stop") * 2
)
frame_lists = st.lists(st.builds(frame, names, st.one_of(frame_objects, st.binary(max_size=6))), max_size=25)


@given(frame_lists)
def test_random_frames_raise_nothing_but_wire_errors_and_keep_the_grammar(some: list[Any]) -> None:
    decoder, grammar = DIALECT.decoder(None), Grammar()  # type: ignore[arg-type]
    for each in some:
        try:
            events = decoder.feed(each)
        except WireError:
            continue
        grammar.feed_all(events)
    grammar.feed_all(decoder.eof())
    assert grammar.done
