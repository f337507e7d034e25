from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.openai_chat import DIALECT
from rivermouth.dialects.openai_chat.decoder import CHOICES_CAP, Decoder
from rivermouth.ir.errors import Kind, WireError
from rivermouth.ir.events import (
    Error,
    Event,
    Finish,
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
from rivermouth.ir.grammar import Grammar
from rivermouth.ir.request import Reasoning, Text, ToolCall
from rivermouth.vendors.openai.finish import FINISH_FAILED, FINISH_IN
from rivermouth.wire.frame import Frame
from tests.dialects.openai_chat.case import (
    DONE,
    REASONING,
    TEXT,
    asked,
    chunk,
    error_of,
    frame,
    parts_of,
    reply_of,
    run,
)

ROLE = chunk({"role": "assistant"})
STOP = chunk(finish="stop")


def call(index: int | None = 0, identity: str | None = None, name: str | None = None, args: Any = None) -> Any:
    """A piece of a tool call; what is None is left out."""
    function = {k: v for k, v in (("name", name), ("arguments", args)) if v is not None}
    entry = {"index": index, "id": identity, "function": function}
    return {k: v for k, v in entry.items() if v is not None}


def calls(*entries: Any) -> Frame:
    return chunk({"tool_calls": list(entries)})


@pytest.mark.fault("F10")
@pytest.mark.parametrize(
    "frames",
    [[ROLE, DONE], [chunk({"content": "a"}), DONE], [STOP], [chunk({"content": "a"}), STOP], []],
    ids=["role", "text", "no DONE", "text, no DONE", "nothing"],
)
def test_without_both_a_finish_reason_and_done_the_stream_was_cut(frames: list[Frame]) -> None:
    assert error_of(run(*frames)).kind is Kind.TRUNCATED


@pytest.mark.fault("F10")
def test_every_choice_must_say_how_it_ended() -> None:
    one = [chunk({"content": "a"}), chunk({"content": "b"}, index=1), STOP, DONE]
    assert error_of(run(*one)).kind is Kind.TRUNCATED


@pytest.mark.fault("F12")
def test_done_and_nothing_else_is_a_failure() -> None:
    error = error_of(run(DONE))
    assert (error.kind, error.code) == (Kind.UPSTREAM, "empty")


def test_after_the_end_nothing_comes() -> None:
    decoder = Decoder(asked())
    for each in (chunk({"content": "a"}), STOP, DONE):
        decoder.feed(each)
    assert [*decoder.feed(chunk({"content": "more"})), *decoder.feed(DONE), *decoder.eof()] == []


@pytest.mark.fault("F11")
@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (frame({"error": {"message": "m", "type": "server_error", "code": None}}), Kind.UPSTREAM),
        (frame({"error": {"message": "m", "type": "rate_limit_error"}}), Kind.RATE_LIMITED),
        (frame({"error": {"message": "m", "code": 503}}), Kind.OVERLOADED),
        (frame({"error": {"message": "m", "code": "context_length_exceeded"}}), Kind.INVALID_REQUEST),
        (frame({"error": "broken"}), Kind.UPSTREAM),
        (frame({"object": "error", "message": "m", "code": 429}), Kind.RATE_LIMITED),
        (frame({"message": "m"}, name="error"), Kind.UPSTREAM),
        (frame(b"not json", name="error"), Kind.UPSTREAM),
        (frame({"choices": [{"index": 0, "delta": {}, "error": {"code": 502}}]}), Kind.UPSTREAM),
        (chunk(finish="error"), Kind.UPSTREAM),
        (chunk(finish="insufficient_system_resource"), Kind.OVERLOADED),
    ],
)
def test_an_error_in_any_shape_is_the_end(bad: Frame, kind: Kind) -> None:
    for before in ([], [chunk({"content": "a"})]):
        events = run(*before, bad, STOP, DONE)
        assert error_of(events).kind is kind


def test_an_error_member_that_is_null_is_no_error() -> None:
    assert parts_of(chunk({"content": "a"}, error=None), STOP, DONE) == (Text("a"),)


# -- endings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", FINISH_IN)
def test_a_known_finish_reason_is_read(word: str) -> None:
    wanted = FINISH_IN[word]
    pieces = [calls(call(identity="c", name="f", args="{}"))] if wanted is Reason.TOOL_CALLS else []
    assert run(*pieces, chunk(finish=word), DONE)[-1] == Finish(wanted)


@pytest.mark.parametrize("word", FINISH_FAILED)
def test_a_finish_reason_that_tells_of_a_failure_is_one(word: str) -> None:
    assert error_of(run(chunk({"content": "a"}), chunk(finish=word), DONE)).kind is FINISH_FAILED[word]


def test_an_unknown_finish_reason_reads_stop_and_says_so() -> None:
    events = run(chunk({"content": "a"}), chunk(finish="tired"), DONE)
    assert events[-1] == Finish(Reason.STOP)
    assert [e.field for e in events if isinstance(e, Warn)] == ["finish_reason"]


@pytest.mark.fault("F24")
def test_stop_although_tools_were_called_is_tool_calls_and_the_other_way_round() -> None:
    assert run(calls(call(identity="c", name="f", args="{}")), STOP, DONE)[-1] == Finish(Reason.TOOL_CALLS)
    assert run(chunk({"content": "a"}), chunk(finish="tool_calls"), DONE)[-1] == Finish(Reason.STOP)
    assert run(calls(call(identity="c", name="f")), chunk(finish="length"), DONE)[-1] == Finish(Reason.LENGTH)


@pytest.mark.fault("F22")
def test_text_in_the_finish_chunk_is_kept_and_an_empty_finish_reason_is_none() -> None:
    assert parts_of(chunk({"content": "a"}, finish=""), chunk({"content": "b"}, finish="stop"), DONE) == (Text("ab"),)


def test_text_after_the_finish_chunk_is_kept() -> None:
    assert parts_of(chunk({"content": "a"}), STOP, chunk({"content": "b"}), DONE) == (Text("a"), Text("b"))


def test_choices_of_one_stream_have_reasons_of_their_own_and_numbers_that_are_unique() -> None:
    reply = reply_of(
        chunk({"content": "b"}, index=2),
        calls(call(identity="c", name="f", args="{}")),
        chunk(finish="tool_calls"),
        chunk(finish="length", index=2),
        DONE,
    )
    assert [c.reason for c in reply.choices] == [Reason.TOOL_CALLS, Reason.STOP, Reason.LENGTH]
    assert reply.choices[2].parts == (Text("b"),)


@pytest.mark.parametrize("index", [-1, CHOICES_CAP, 10**12])
def test_a_choice_index_out_of_all_bounds_is_no_chunk(index: int) -> None:
    with pytest.raises(WireError):
        Decoder(asked()).feed(chunk({"content": "a"}, index=index))


def test_choices_without_an_index_are_counted() -> None:
    both = [{"delta": {"content": t}, "finish_reason": "stop"} for t in "ab"]
    reply = reply_of(frame({"choices": both}), DONE)
    assert [c.text for c in reply.choices] == ["a", "b"]


# -- the start --------------------------------------------------------------------------------------------------------


@pytest.mark.fault("F23")
def test_it_starts_once_whatever_is_repeated() -> None:
    events = run(ROLE, ROLE, chunk({"role": "assistant", "content": "a"}), ROLE, STOP, DONE)
    assert [e for e in events if isinstance(e, Start)] == [Start("up-1", "up-model", 1)]
    assert sum(isinstance(e, PartStart) for e in events) == 1


def test_what_is_no_chunk_is_passed_on_unread() -> None:
    events = run(frame({"object": "ping"}), chunk({"content": "a"}), STOP, DONE)
    assert [e for e in events if isinstance(e, Unknown)] == [Unknown("ping", b'{"object":"ping"}')]


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b"1", b'"a"', b'{"choices":1}', b'{"choices":[{"delta":{"content":1}}]}']
)
def test_a_frame_of_another_shape_is_malformed(data: bytes) -> None:
    with pytest.raises(WireError):
        Decoder(asked()).feed(frame(data))


def test_a_message_may_stand_for_a_delta() -> None:
    whole = frame({"choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}]})
    assert parts_of(whole, DONE) == (Text("a"),)


# -- calls ------------------------------------------------------------------------------------------------------------


@pytest.mark.fault("F19")
def test_several_calls_in_one_delta_all_survive_with_or_without_an_index() -> None:
    nameless = calls(call(None, None, "f", "{}"), call(None, None, "f", '{"x":1}'))
    assert [p.arguments for p in parts_of(nameless, STOP, DONE) if isinstance(p, ToolCall)] == ["{}", '{"x":1}']
    for first, second in ((0, 1), (None, None), (0, 0)):
        both = calls(call(first, "a", "f", "{}"), call(second, "b", "g", '{"x":1}'))
        assert parts_of(both, STOP, DONE) == (ToolCall("a", "f", "{}"), ToolCall("b", "g", '{"x":1}'))


@pytest.mark.fault("F19")
@given(st.lists(st.integers(0, 12), max_size=4))
def test_arguments_do_not_depend_on_how_they_were_cut(cuts: list[int]) -> None:
    whole = '{"a": "b\\n"}'
    edges = sorted({0, len(whole), *cuts})
    pieces = [whole[a:b] for a, b in itertools.pairwise(edges)]
    frames = [calls(call(identity="c", name="f", args=""))] + [calls(call(args=piece)) for piece in pieces]
    assert parts_of(*frames, STOP, DONE) == (ToolCall("c", "f", whole),)


@pytest.mark.fault("F20")
def test_ids_are_minted_once_and_the_same_for_the_same_stream() -> None:
    stream = [
        calls(call(0, None, "f", "{")),
        calls(call(0, None, None, "}")),
        calls(call(3, "", "g", "{}")),
        STOP,
        DONE,
    ]
    first, again = parts_of(*stream), parts_of(*stream)
    assert first == again
    ids = [p.id for p in first if isinstance(p, ToolCall)]
    assert len(set(ids)) == 2
    assert all(i.startswith("call_") for i in ids)


@pytest.mark.fault("F20")
def test_ids_that_are_minted_differ_from_turn_to_turn_although_the_stream_names_nothing() -> None:
    bare = frame({"choices": [{"delta": {"tool_calls": [call(name="f")]}, "finish_reason": "stop"}]})
    seen = set()
    for length in (1, 3):
        request = asked(messages=(None,) * length)
        seen |= {e.id for e in run(bare, DONE, request=request) if isinstance(e, PartStart)}
    assert len(seen) == 2


@pytest.mark.fault("F20")
@pytest.mark.parametrize(
    "frames",
    [
        [calls(call(0, "c", "f", "{")), calls(call(0, "c", "f", "}"))],
        [calls(call(0, "c", "f", "{")), calls(call(0, "other", None, "}"))],
        [calls(call(None, "c", "f", "{")), calls(call(None, "c", None, "}"))],
        [calls(call(None, "c", "f", "{")), calls(call(None, None, None, "}"))],
        [calls(call(None, "c", None, "{")), calls(call(None, None, "f", "}"))],
        [calls(call(5, "c")), calls(call(5, None, "f")), calls(call(5, None, None, "{}"))],
        [calls(call(5, "c", None, "{")), calls(call(5, None, "f", "}"))],
        [calls(call(0, "c", "f", {}))],
    ],
)
def test_one_call_is_one_call_whatever_is_repeated_or_missing(frames: list[Frame]) -> None:
    assert parts_of(*frames, STOP, DONE) == (ToolCall("c", "f", "{}"),)


@pytest.mark.fault("F20")
def test_two_calls_with_one_id_are_told_apart() -> None:
    first, second = parts_of(calls(call(0, "c", "f", "{}"), call(1, "c", "f", "{}")), STOP, DONE)
    assert isinstance(first, ToolCall)
    assert isinstance(second, ToolCall)
    assert first.id == "c"
    assert second.id.startswith("call_")


@pytest.mark.fault("F21")
def test_empty_means_absent() -> None:
    empty = {"content": "", "reasoning_content": None, "refusal": None, "tool_calls": [], "function_call": None}
    odd = {"content": [], "reasoning": {}, "reasoning_details": [], "images": [], "function_call": {}}
    assert parts_of(chunk(empty), chunk(odd), chunk({"content": "a"}), chunk(empty), STOP, DONE) == (Text("a"),)
    assert parts_of(calls(call(0)), chunk({"content": "a"}), STOP, DONE) == (Text("a"),)


def test_a_call_that_never_says_its_name_is_a_failure_of_the_upstream() -> None:
    nameless = calls(call(0, "c", None, "{}"))
    assert error_of(run(nameless, STOP, DONE)).code == "nameless_tool_call"
    assert error_of(run(chunk({"content": "a"}), STOP, nameless, DONE)).code == "nameless_tool_call"


def test_a_free_form_call_reads_as_a_function_of_its_text() -> None:
    first = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "sh", "input": 'say "'}}
    second = {"index": 0, "custom": {"input": 'hi"\n'}}
    (made,) = parts_of(calls(first), calls(second), STOP, DONE)
    assert isinstance(made, ToolCall)
    assert json.loads(made.arguments) == {"input": 'say "hi"\n'}


# -- reasoning --------------------------------------------------------------------------------------------------------


@pytest.mark.fault("F25")
@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "Hm"},
        {"reasoning": "Hm"},
        {"reasoning_content": "Hm", "reasoning": "Hm"},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "Hm"}]},
        {"reasoning": "Hm", "reasoning_details": [{"type": "reasoning.text", "text": "Hm", "index": 0}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]},
        {"content": [{"type": "thinking", "thinking": "Hm"}]},
    ],
)
def test_reasoning_is_read_in_every_spelling_and_counted_once(delta: Any) -> None:
    assert parts_of(chunk(delta), chunk({"content": "a"}), STOP, DONE) == (Reasoning("Hm"), Text("a"))


@pytest.mark.fault("F25")
def test_signatures_stay_with_their_blocks() -> None:
    def detail(**members: Any) -> Frame:
        return chunk({"reasoning_details": [{"type": "reasoning.text", **members}]})

    parts = parts_of(
        detail(text="a", index=0),
        detail(text="b", index=1),
        detail(signature="s1", index=1),
        detail(signature="s2", index=1),
        detail(text="c", index=2),
        chunk({"content": "x"}),
        STOP,
        DONE,
    )
    assert parts == (Reasoning("a"), Reasoning("b", "s1s2"), Reasoning("c"), Text("x"))


def test_a_signature_without_text_is_a_block_of_its_own_and_one_that_is_late_is_named() -> None:
    signed = chunk({"reasoning_details": [{"type": "reasoning.text", "signature": "s", "index": 0}]})
    assert parts_of(signed, chunk({"content": "x"}), STOP, DONE) == (Reasoning("", "s"), Text("x"))
    late = run(chunk({"reasoning": "a"}), chunk({"content": "x"}), signed, STOP, DONE)
    assert [e.field for e in late if isinstance(e, Warn)] == ["reasoning_details"]
    assert not any(isinstance(e, Signature) for e in late)


@pytest.mark.fault("F23")
def test_a_part_is_what_its_member_says_and_a_switch_closes_one_and_opens_another() -> None:
    events = run(
        chunk({"reasoning": "a", "content": "b"}), chunk({"content": "c"}), chunk({"reasoning": "d"}), STOP, DONE
    )
    assert [e.kind for e in events if isinstance(e, PartStart)] == [REASONING, TEXT, REASONING]


# -- usage ------------------------------------------------------------------------------------------------------------


@pytest.mark.fault("F27")
@pytest.mark.parametrize("where", ["own chunk", "before the finish", "on the finish", "in the choice"])
def test_usage_is_found_wherever_it_stands(where: str) -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    alone = frame({"choices": [], "usage": usage})
    in_choice = frame({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": usage}]})
    frames = {
        "own chunk": [STOP, alone],
        "before the finish": [alone, STOP],
        "on the finish": [chunk(finish="stop", usage=usage)],
        "in the choice": [in_choice],
    }[where]
    assert reply_of(chunk({"content": "a"}), *frames, DONE).usage == Usage(5, 2)


@pytest.mark.fault("F28")
def test_cached_tokens_are_part_of_the_prompt_in_either_spelling() -> None:
    counts = {"prompt_tokens": 100, "completion_tokens": 2}
    ours = {**counts, "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 8}}
    theirs = {**counts, "prompt_cache_hit_tokens": 60, "prompt_cache_miss_tokens": 40}
    assert reply_of(chunk(finish="stop", usage=ours), DONE).usage == Usage(100, 2, 60, 8)
    assert reply_of(chunk(finish="stop", usage=theirs), DONE).usage == Usage(100, 2, 60)


@pytest.mark.fault("F29")
def test_null_is_not_zero_and_zero_is_not_null() -> None:
    zero = {"prompt_tokens": 0, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 0}}
    half = {"prompt_tokens": 3, "completion_tokens": None, "prompt_tokens_details": None}
    assert reply_of(chunk(finish="stop", usage=zero), DONE).usage == Usage(0, 0, 0)
    assert reply_of(chunk(finish="stop", usage=half), DONE).usage == Usage(3)
    assert reply_of(chunk(finish="stop", usage={}), DONE).usage is None


def test_reasoning_that_only_the_total_counts_is_added_to_the_answer() -> None:
    odd = {"prompt_tokens": 10, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 7}}
    assert reply_of(chunk(finish="stop", usage={**odd, "total_tokens": 22}), DONE).usage == Usage(
        10, 12, reasoning_tokens=7
    )
    assert reply_of(chunk(finish="stop", usage={**odd, "total_tokens": 15}), DONE).usage == Usage(
        10, 5, reasoning_tokens=5
    )


# -- the hot path -----------------------------------------------------------------------------------------------------


def prose(texts: list[str], member: str, index: int = 0) -> list[Frame]:
    return [chunk({member: text}, index=index) for text in texts]


texts = st.lists(
    st.text(max_size=6) | st.sampled_from(['","x":"', '"', "\\", "[DONE]", "\u2028"]), min_size=4, max_size=8
)


@given(texts, st.sampled_from(["content", "reasoning_content", "reasoning"]), st.booleans())
def test_frames_that_are_read_without_parsing_mean_what_parsing_says(
    said: list[str], member: str, spaced: bool
) -> None:
    frames = prose(said, member)
    if spaced:
        frames = [frame(json.dumps(json.loads(f.data), ensure_ascii=False).encode()) for f in frames]
    quick = Decoder(asked())
    events = [e for f in frames for e in quick.feed(f)]
    slow = Decoder(asked())
    slow._lessons = 1000
    assert events == [e for f in frames for e in slow.feed(f)]


def test_a_learned_frame_does_not_outlive_what_it_was_learned_on() -> None:
    """The same bytes around the text, but the open part is another, or more stands where the text was."""
    start = prose(["a", "b"], "content")
    other = [chunk({"refusal": "no"}), chunk({"content": "c"}), chunk({"content": ""})]
    more = frame(start[1].data.replace(b'"b"', b'"b","reasoning":"hm"'))
    wild = frame(start[1].data.replace(b'"b"', b'"b"}},{"index":1,"delta":{"content":"x"'))
    decoder = Decoder(asked())
    learned: list[Event] = [e for f in start for e in decoder.feed(f)]
    assert decoder._head is not None
    assert learned[-2:] == [TextDelta(0, "a"), TextDelta(0, "b")]
    events = [e for f in (*other, more, wild) for e in decoder.feed(f)]
    Grammar().feed_all(learned + events)
    assert [e for e in events if isinstance(e, TextDelta)] == [
        TextDelta(1, "no"),
        TextDelta(2, "c"),
        TextDelta(4, "b"),
        TextDelta(4, "b"),
        TextDelta(5, "x"),
    ]
    assert ReasoningDelta(3, "hm") in events


def test_a_stream_that_differs_everywhere_is_not_learned_for_ever() -> None:
    decoder = Decoder(asked())
    for number in range(100):
        decoder.feed(chunk({"content": "a"}, obfuscation="x" * number))
    assert decoder._lessons <= 8


# -- anything ---------------------------------------------------------------------------------------------------------

MEMBERS = (
    "choices",
    "delta",
    "index",
    "content",
    "reasoning",
    "reasoning_details",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "id",
    "custom",
    "input",
    "finish_reason",
    "usage",
    "error",
    "code",
    "message",
    "type",
    "images",
    "image_url",
    "url",
    "object",
    "created",
    "prompt_tokens",
    "text",
    "data",
    "signature",
    "thinking",
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(MEMBERS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(st.binary(max_size=40) | json_values.map(lambda v: json.dumps(v).encode()), max_size=5))
def test_any_frames_give_legal_events_or_a_wire_error(payloads: list[bytes]) -> None:
    decoder = Decoder(asked())
    grammar = Grammar()
    try:
        for data in payloads:
            grammar.feed_all(decoder.feed(frame(data)))
    except WireError:
        return
    grammar.feed_all(decoder.eof())
    assert grammar.done


deltas = st.fixed_dictionaries(
    {},
    optional={
        "content": st.sampled_from(["", "a", None]),
        "reasoning": st.sampled_from(["", "r", None]),
        "refusal": st.sampled_from(["", "n", None]),
        "tool_calls": st.lists(
            st.builds(
                call,
                st.sampled_from([None, 0, 1]),
                st.sampled_from([None, "", "c", "d"]),
                st.sampled_from([None, "", "f"]),
                st.sampled_from([None, "", "{", {}]),
            ),
            max_size=2,
        ),
        "reasoning_details": st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "index": st.integers(0, 1),
                    "text": st.just("t"),
                    "signature": st.sampled_from(["s", "z"]),
                    "data": st.just("d"),
                },
            ),
            max_size=2,
        ),
    },
)


@given(st.lists(st.builds(chunk, deltas, st.sampled_from([None, None, "stop", "tool_calls"]), st.integers(0, 1))))
def test_chunks_in_any_order_give_legal_events_with_one_end(frames: list[Frame]) -> None:
    events = run(*frames, DONE)
    assert sum(isinstance(e, Finish | Error) for e in events) == 1


def test_discovery_knows_it() -> None:
    from rivermouth.dialects import discover

    assert discover()["openai_chat"] is DIALECT
