"""`fold` is the one accumulator: it undoes `unfold`, it does not see the cuts, and it loses nothing."""

from __future__ import annotations

import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir.errors import ApiError
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
    Start,
    TextDelta,
    Usage,
    Warn,
    believable,
    merge_usage,
)
from rivermouth.ir.fold import FOLDS, WHOLE, Fold, fold, unfold
from rivermouth.ir.grammar import Grammar
from rivermouth.ir.reply import Choice, Reply
from rivermouth.ir.request import Refusal, Text, ToolCall
from tests.strategies import event_streams, partial_usages, replies


def joined(events: list[Event]) -> list[Event]:
    """The same stream with neighbouring deltas of one part joined: what a whole reply would have said."""
    out: list[Event] = []
    for event in events:
        last = out[-1] if out else None
        match last, event:
            case TextDelta(p, a), TextDelta(q, b) if p == q:
                out[-1] = TextDelta(p, a + b)
            case ReasoningDelta(p, a), ReasoningDelta(q, b) if p == q:
                out[-1] = ReasoningDelta(p, a + b)
            case ArgsDelta(p, a), ArgsDelta(q, b) if p == q:
                out[-1] = ArgsDelta(p, a + b)
            case _:
                out.append(event)
    return out


@given(st.integers(1, 3).flatmap(replies))
def test_fold_undoes_unfold_and_the_stream_is_legal(reply: Reply) -> None:
    events = unfold(reply)
    grammar = Grammar()
    grammar.feed_all(events)
    assert grammar.done
    assert fold(events) == reply


@given(event_streams(kinds=tuple(PartKind), interleave=False))
def test_unfold_undoes_fold_for_a_stream_whose_parts_do_not_overlap(events: list[Event]) -> None:
    assert unfold(fold(events)) == joined(events)


@pytest.mark.fault("F19")
@given(event_streams(kinds=tuple(PartKind), noise=True))
def test_the_result_does_not_depend_on_how_the_deltas_were_cut(events: list[Event]) -> None:
    assert fold(events) == fold(joined(events))


@given(event_streams(n_choices=2, kinds=tuple(PartKind), end="open"))
def test_a_cut_stream_folds_to_what_was_said(events: list[Event]) -> None:
    folded = Fold().feed_all(events)
    heads = [e for e in events if isinstance(e, PartStart)]
    for choice, answer in enumerate(folded.reply().choices):
        own = {h.part for h in heads if h.choice == choice}
        assert len(answer.parts) == len(own)
        said = "".join(e.text for e in events if isinstance(e, TextDelta) and e.part in own)
        kept = "".join(p.text for p in answer.parts if isinstance(p, Text | Refusal))
        assert sorted(said) == sorted(kept)
    assert folded.finish is None


@given(event_streams(end="error"))
def test_a_failed_stream_raises_its_error_and_keeps_what_came(events: list[Event]) -> None:
    last = events[-1]
    assert isinstance(last, Error)
    with pytest.raises(ApiError) as caught:
        fold(events)
    assert caught.value == last.error
    folded = Fold().feed_all(events)
    assert folded.error == last.error
    assert len([p for c in folded.reply().choices for p in c.parts]) == sum(isinstance(e, PartStart) for e in events)


def test_interleaved_parts_and_choices_stay_apart() -> None:
    reply = fold(
        [
            Start("a", "m", 5),
            Warn("w", "seed"),
            PartStart(0, PartKind.TEXT),
            PartStart(1, PartKind.TOOL, 1, "call_1", "f"),
            TextDelta(0, "he"),
            ArgsDelta(1, '{"a"'),
            TextDelta(0, "llo"),
            ArgsDelta(1, ":1}"),
            PartEnd(1),
            PartEnd(0),
            Usage(3, 4),
            Finish(Reason.STOP, "END", (Reason.STOP, Reason.TOOL_CALLS)),
        ]
    )
    assert reply == Reply(
        choices=(
            Choice((Text("hello"),), Reason.STOP, "END"),
            Choice((ToolCall("call_1", "f", '{"a":1}'),), Reason.TOOL_CALLS),
        ),
        usage=Usage(3, 4),
        id="a",
        model="m",
        created=5,
        warnings=(Warn("w", "seed"),),
    )


@pytest.mark.parametrize(("kind", "reason"), [(PartKind.TEXT, Reason.STOP), (PartKind.TOOL, Reason.TOOL_CALLS)])
def test_an_answer_without_a_stated_end_reads_by_what_it_holds(kind: PartKind, reason: Reason) -> None:
    named = kind is PartKind.TOOL
    head = PartStart(0, kind, 0, "call_1" if named else None, "f" if named else None)
    assert Fold().feed_all([Start(), head]).reply().choices[0].reason is reason


class TestMergeUsage:
    @pytest.mark.fault("F29")
    def test_null_keeps_and_zero_replaces(self) -> None:
        old = Usage(input_tokens=7, output_tokens=5, cached_tokens=3)
        assert merge_usage(old, Usage(output_tokens=0)) == Usage(input_tokens=7, output_tokens=0, cached_tokens=3)

    @pytest.mark.fault("F29")
    def test_what_nobody_said_is_none(self) -> None:
        assert merge_usage(Usage(input_tokens=1), Usage(output_tokens=2)).cached_tokens is None

    @pytest.mark.parametrize("wrong", [-1, 2**53 + 1, 10**30])
    def test_a_count_that_cannot_be_was_not_said(self, wrong: int) -> None:
        usage = merge_usage(
            None, Usage(input_tokens=wrong, output_tokens=wrong, cached_tokens=wrong, reasoning_tokens=1)
        )
        assert usage == Usage(reasoning_tokens=1)
        assert merge_usage(Usage(input_tokens=7), Usage(input_tokens=wrong)) == Usage(input_tokens=7)

    def test_a_part_is_not_above_its_whole(self) -> None:
        said = Usage(input_tokens=5, cached_tokens=999, cache_write_tokens=7, output_tokens=3, reasoning_tokens=4)
        assert merge_usage(None, said) == Usage(
            input_tokens=5, cached_tokens=5, cache_write_tokens=5, output_tokens=3, reasoning_tokens=3
        )

    @given(partial_usages.map(believable))
    def test_the_first_stands(self, usage: Usage) -> None:
        assert merge_usage(None, usage) == usage

    @given(partial_usages.map(believable), partial_usages.map(believable))
    def test_each_field_is_the_last_one_said(self, old: Usage, new: Usage) -> None:
        merged = merge_usage(old, new)
        for name in Usage.__struct_fields__:
            if name != "estimated":
                said = getattr(new, name)
                assert getattr(merged, name) == (getattr(old, name) if said is None else said)

    @pytest.mark.fault("F29")
    def test_an_estimate_stays_marked_until_every_number_is_replaced(self) -> None:
        guess = Usage(input_tokens=7, output_tokens=5, estimated=True)
        assert merge_usage(guess, Usage(output_tokens=6)).estimated
        assert not merge_usage(guess, Usage(input_tokens=8, output_tokens=6)).estimated
        assert merge_usage(Usage(input_tokens=7), Usage(output_tokens=5, estimated=True)).estimated

    @pytest.mark.fault("F27")
    def test_fold_merges_usage_wherever_it_comes(self) -> None:
        reply = fold(
            [Start(), Usage(input_tokens=9), Usage(output_tokens=2), Usage(output_tokens=4), Finish(Reason.STOP)]
        )
        assert reply.usage == Usage(input_tokens=9, output_tokens=4)


def test_every_event_and_every_kind_of_part_has_its_line() -> None:
    assert set(FOLDS) == set(typing.get_args(Event))
    assert set(WHOLE) == set(PartKind)
