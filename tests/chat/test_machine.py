"""The table of a turn's moves: total, without an exit from an end, and right in every interleaving of a small chat."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import msgspec
import pytest

from rivermouth.chat.machine import (
    ASKED,
    LIVE,
    OWNED,
    OWNING,
    POLICIES,
    RECOVERY,
    RULES,
    TERMINAL,
    Actor,
    Move,
    OnBusy,
    Standing,
    State,
    Step,
    owns,
    permits,
)
from tests.chat.model import Laws, Size, Violation, explore

QUICK = [
    Size(turns=1, chunks=2, crashes=1, losses=0),
    Size(turns=1, chunks=1, crashes=1, losses=1),
    Size(turns=2, chunks=0, crashes=0, losses=0),
]
LARGE = [
    Size(turns=2, chunks=0, crashes=1, losses=0),
    Size(turns=2, chunks=1, crashes=0, losses=0),
    Size(turns=1, chunks=2, crashes=1, losses=1),
    Size(turns=1, chunks=3, crashes=2, losses=1),
    Size(turns=2, chunks=1, crashes=1, losses=0),
    Size(turns=2, chunks=1, crashes=0, losses=1),
    Size(turns=2, chunks=2, crashes=1, losses=0),
    Size(turns=2, chunks=1, crashes=1, losses=1),
]
"""The last has 4.1 million worlds: some minutes, and 2 GiB."""


def test_every_state_and_move_and_policy_has_its_place():
    assert set(RULES) == set(Move)
    assert set(POLICIES) == set(OnBusy)
    assert LIVE | TERMINAL | {State.QUEUED} == set(State)
    assert not LIVE & TERMINAL
    assert OWNED < LIVE
    assert {rule.actor for rule in RULES.values()} == set(Actor)


def test_nothing_leaves_an_end():
    assert [move for move, rule in RULES.items() if rule.sources & TERMINAL] == []


def test_every_state_that_is_not_an_end_can_reach_one():
    reach = set(TERMINAL)
    for _ in State:
        reach |= {s for rule in RULES.values() if rule.targets & reach for s in rule.sources}
    assert reach == set(State)


def test_whoever_becomes_a_writer_gets_a_new_generation_and_whoever_writes_must_show_it():
    assert {m for m, r in RULES.items() if r.bumps} == {Move.CLAIM, Move.TAKE_OVER}
    assert {m for m, r in RULES.items() if r.fenced} == {Move.CALL, Move.FINISH, Move.FINALISE}
    assert {m for m, r in RULES.items() if r.targets & LIVE and not r.sources & LIVE} == {Move.CLAIM}


@pytest.mark.promise(86, 87)
@pytest.mark.parametrize("move", [m for m, r in RULES.items() if r.fenced])
def test_a_stale_generation_makes_no_move(move: Move):
    rule = RULES[move]
    for state, to, reason in itertools.product(State, State, [None, *ASKED]):
        at = Standing(state=state, generation=7, reason=reason)
        assert not permits(rule, at, to, generation=6)
        assert not permits(rule, at, to, generation=None)
        assert permits(rule, at, to, generation=7) == (
            state in rule.sources
            and to in rule.targets
            and (not rule.by_reason or (to == reason if reason else to not in ASKED))
        )


def test_a_claim_needs_the_free_slot():
    at = Standing(state=State.QUEUED, slot_free=False)
    assert not permits(RULES[Move.CLAIM], at, State.STARTING)
    assert permits(RULES[Move.CLAIM], msgspec.structs.replace(at, slot_free=True), State.STARTING)


def test_only_what_is_not_there_can_be_submitted():
    for state in State:
        assert not permits(RULES[Move.SUBMIT], Standing(state=state), State.QUEUED)
    assert permits(RULES[Move.SUBMIT], Standing(state=None), State.QUEUED)


def test_checkpoints_are_for_the_owner_of_a_live_turn():
    assert {s for s in State if owns(s, 3, 3)} == OWNED
    assert not any(owns(s, 4, 3) for s in State)


# -- all interleavings


@pytest.mark.promise(79, 80)
@pytest.mark.parametrize("size", QUICK, ids=str)
def test_no_interleaving_of_a_small_chat_breaks_it(size: Size):
    explored = explore(size)
    assert explored.quiet
    assert explored.transitions > explored.states > 10


@pytest.mark.promise(79, 80)
@pytest.mark.thorough
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("size", LARGE, ids=str)
def test_no_interleaving_of_a_larger_chat_breaks_it(size: Size):
    assert explore(size).quiet


def changed(move: Move, **changes: object) -> Laws:
    return Laws(rules={**RULES, move: msgspec.structs.replace(RULES[move], **changes)})


def swapped(steps: tuple[Step, ...], one: Step, other: Step) -> tuple[Step, ...]:
    turned = {one: other, other: one}
    return tuple(turned.get(step, step) for step in steps)


MUTANTS: dict[str, tuple[Callable[[], Laws], Size, str]] = {
    "fold before the fence": (
        lambda: Laws(recovery=swapped(RECOVERY, Step.FENCE, Step.FOLD)),
        Size(1, 1, 0, 0),
        "kept|ended|end of its turn|differs|tells",
    ),
    "the owner tells the end before it commits": (
        lambda: Laws(owning=swapped(OWNING, Step.COMMIT, Step.TELL)),
        Size(1, 1, 0, 0),
        "before it was true",
    ),
    "the reaper tells the end before it commits": (
        lambda: Laws(recovery=swapped(RECOVERY, Step.COMMIT, Step.TELL)),
        Size(1, 1, 0, 0),
        "before it was true|the end tells",
    ),
    "a lost log begins anew by itself": (lambda: Laws(append_revives=True), Size(1, 2, 0, 1), "gap"),
    "a claim does not look at the slot": (lambda: changed(Move.CLAIM, slot_free=False), Size(2, 1, 0, 0), "two live"),
    "an end can be left": (
        lambda: changed(Move.TAKE_OVER, sources=LIVE | TERMINAL),
        Size(1, 1, 0, 0),
        "not the live one",
    ),
    "the slot is not given back": (lambda: changed(Move.FINISH, frees_slot=False), Size(2, 1, 0, 0), "hangs"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_explorer_finds_what_is_wrong_with(name: str):
    laws, size, words = MUTANTS[name]
    with pytest.raises(Violation, match=words):
        explore(size, laws())


HARMLESS: dict[str, tuple[Callable[[], Laws], Size]] = {
    "an end without the writer's generation": (lambda: changed(Move.FINISH, fenced=False), Size(2, 1, 1, 0)),
    "a lost log that is begun anew unasked": (lambda: Laws(reopens_unasked=True), Size(1, 2, 1, 1)),
}
"""What the other laws make up for, as long as a turn has one attempt.  The first is needed when it has more; the second
ends a writer's spending that was shut out."""


@pytest.mark.thorough
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("name", HARMLESS)
def test_the_explorer_finds_nothing_where_two_laws_say_the_same(name: str):
    laws, size = HARMLESS[name]
    assert explore(size, laws()).quiet
