"""The grammar walked whole: every (state, event) pair, every (part kind, delta) pair, and random sequences."""

from __future__ import annotations

import typing
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir import events as ir_events
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
    Unknown,
    Usage,
    Warn,
)
from rivermouth.ir.grammar import DELTAS, STREAM, Grammar, GrammarError, State
from tests.in_turn import in_turn
from tests.strategies import any_events, event_streams

EVENT_TYPES = typing.get_args(ir_events.Event)

SAMPLES: dict[type, Event] = {
    Start: Start(),
    PartStart: PartStart(1, PartKind.TEXT),
    TextDelta: TextDelta(0, "x"),
    ReasoningDelta: ReasoningDelta(0, "x"),
    Signature: Signature(0, "x"),
    ArgsDelta: ArgsDelta(0, "{}"),
    MediaDelta: MediaDelta(0, "image/png", "QUJD"),
    PartEnd: PartEnd(0),
    Usage: Usage(1, 1),
    Warn: Warn("w"),
    Unknown: Unknown("u", b""),
    Finish: Finish(Reason.STOP),
    Error: Error(ApiError(Kind.UPSTREAM, "e")),
}
OPENS = {
    TextDelta: PartKind.TEXT,
    ReasoningDelta: PartKind.REASONING,
    Signature: PartKind.REASONING,
    ArgsDelta: PartKind.TOOL,
    MediaDelta: PartKind.IMAGE,
    PartEnd: PartKind.TEXT,
    PartStart: PartKind.TEXT,
}


def opening(part: int, kind: PartKind) -> PartStart:
    named = kind is PartKind.TOOL
    return PartStart(part, kind, 0, "call_1" if named else None, "f" if named else None)


def in_state(state: State, kind: type) -> Grammar:
    """A grammar brought to that state, with part 0 open for this event where one is needed."""
    grammar = Grammar()
    if state is State.IDLE:
        return grammar
    grammar.feed(Start())
    if state is State.DONE:
        grammar.feed(Finish(Reason.STOP))
    elif kind in OPENS:
        grammar.feed(opening(0, OPENS[kind]))
    return grammar


def test_the_samples_name_every_event() -> None:
    assert set(SAMPLES) == set(EVENT_TYPES)
    assert {kind for _, kind in STREAM} == set(EVENT_TYPES)
    assert set(DELTAS) == set(PartKind)


@in_turn(("state", "kind"), product(State, EVENT_TYPES))
def test_every_state_and_event_moves_as_the_table_says_or_raises(state: State, kind: type) -> None:
    grammar = in_state(state, kind)
    if (state, kind) in STREAM:
        grammar.feed(SAMPLES[kind])
        assert grammar.state is STREAM[state, kind]
    else:
        with pytest.raises(GrammarError):
            grammar.feed(SAMPLES[kind])
        assert grammar.state is state


@pytest.mark.parametrize("state", [State.DONE])
@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_nothing_comes_after_the_end(state: State, kind: type) -> None:
    assert (state, kind) not in STREAM


@pytest.mark.parametrize(
    ("kind", "delta"), list(product(PartKind, (TextDelta, ReasoningDelta, Signature, ArgsDelta, MediaDelta)))
)
def test_a_part_takes_the_deltas_of_its_kind_and_no_other(kind: PartKind, delta: type) -> None:
    grammar = Grammar()
    grammar.feed_all([Start(), opening(0, kind)])
    if delta in DELTAS[kind]:
        grammar.feed(SAMPLES[delta])
        grammar.feed_all([PartEnd(0), Finish(Reason.STOP)])
        assert grammar.done
    else:
        with pytest.raises(GrammarError):
            grammar.feed(SAMPLES[delta])


@pytest.mark.parametrize("kind", PartKind)
def test_a_closed_part_takes_nothing(kind: PartKind) -> None:
    for delta in (*DELTAS[kind], PartEnd):
        grammar = Grammar()
        grammar.feed_all([Start(), opening(0, kind), PartEnd(0)])
        with pytest.raises(GrammarError):
            grammar.feed(SAMPLES[delta])


@pytest.mark.parametrize("first", [1, -1, 2])
def test_part_numbers_are_dense_from_zero(first: int) -> None:
    grammar = Grammar()
    grammar.feed(Start())
    with pytest.raises(GrammarError):
        grammar.feed(PartStart(first, PartKind.TEXT))


def test_a_part_number_is_used_once() -> None:
    grammar = Grammar()
    grammar.feed_all([Start(), PartStart(0, PartKind.TEXT), PartEnd(0)])
    with pytest.raises(GrammarError):
        grammar.feed(PartStart(0, PartKind.TEXT))


def test_no_part_is_open_at_finish_but_may_be_at_error() -> None:
    grammar = Grammar()
    grammar.feed_all([Start(), PartStart(0, PartKind.TEXT), PartStart(1, PartKind.REASONING)])
    with pytest.raises(GrammarError, match=r"\[0, 1\] are open"):
        grammar.feed(Finish(Reason.STOP))
    grammar.feed(SAMPLES[Error])
    assert grammar.done


@in_turn(("kind", "id_", "name"), product(PartKind, (None, "", "call_1"), (None, "", "f")))
def test_a_tool_call_and_nothing_else_has_an_id_and_a_name(kind: PartKind, id_: str | None, name: str | None) -> None:
    grammar = Grammar()
    grammar.feed(Start())
    legal = bool(id_ and name) if kind is PartKind.TOOL else not id_ and not name
    if legal:
        grammar.feed(PartStart(0, kind, 0, id_, name))
    else:
        with pytest.raises(GrammarError):
            grammar.feed(PartStart(0, kind, 0, id_, name))


def test_a_part_is_signed_once() -> None:
    grammar = Grammar()
    grammar.feed_all([Start(), PartStart(0, PartKind.REASONING), Signature(0, "a")])
    with pytest.raises(GrammarError):
        grammar.feed(Signature(0, "a"))


@given(st.lists(any_events, max_size=12))
def test_any_sequence_is_legal_and_lands_in_a_known_state_or_raises(events: list[Event]) -> None:
    grammar = Grammar()
    ends = 0
    for event in events:
        before = grammar.state
        try:
            grammar.feed(event)
        except GrammarError:
            assert grammar.state is before
            return
        assert grammar.state is STREAM[before, type(event)]
        ends += isinstance(event, Finish | Error)
    assert ends == grammar.done


@given(st.data(), st.sampled_from(["finish", "error", "open"]), st.integers(1, 3))
def test_the_strategy_draws_legal_streams_only(data: st.DataObject, end: str, n_choices: int) -> None:
    events = data.draw(event_streams(n_choices, tuple(PartKind), noise=True, end=end))
    grammar = Grammar()
    grammar.feed_all(events)
    assert grammar.done == (end != "open")
