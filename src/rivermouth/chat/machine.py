"""The states of a turn, and every move between them.  Nothing else decides what may follow what.

A turn is one user message and its answer.  At most one turn of a chat is live; the others wait in its queue or have
ended.  Every move is one transaction of the store, made by the actor that the table names, and only when its guard
holds: the turn stands in one of `sources`, and, where `fenced`, the mover's generation is still the turn's own.

The chat's `generation` is one counter.  It grows whenever a turn gets a writer (`bumps`): by a claim and by every
takeover.  So whoever was the writer before finds another number in the row and another id in the log, and can write
neither.

    submit      claim         call            finish
      T1          T2           T3               T5
    ------> queued ---> starting ---> streaming -----> completed | failed | interrupted
              |  T6        | T4          | T4
              v            `-> stopping <'  ---- T5 -> stopped | superseded
       stopped|superseded      |
                               | T7  (from any live state)
                               v
                           recovering ---------- T8 -> interrupted | stopped | superseded | failed

Two orders matter as much as the guards; they are data here, so that what is checked is what runs.  A reaper writes its
fence before it folds the log, or text that a follower was shown could be missing from the row.  Owner and reaper commit
the row before they write the end into the log, or a follower could read a row that is not final.

Pure: `tests/chat/model.py` explores this very table.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec


class State(StrEnum):
    """Where a turn stands; the word in its row."""

    QUEUED = "queued"
    STARTING = "starting"
    STREAMING = "streaming"
    STOPPING = "stopping"
    RECOVERING = "recovering"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    SUPERSEDED = "superseded"
    INTERRUPTED = "interrupted"


class Actor(StrEnum):
    """Who makes a move."""

    API = "api"
    WORKER = "worker"
    OWNER = "owner"
    REAPER = "reaper"


class Move(StrEnum):
    SUBMIT = "T1"
    CLAIM = "T2"
    CALL = "T3"
    STOP = "T4"
    FINISH = "T5"
    WITHDRAW = "T6"
    TAKE_OVER = "T7"
    FINALISE = "T8"


LIVE: Final = frozenset({State.STARTING, State.STREAMING, State.STOPPING, State.RECOVERING})
"""States of which a chat has at most one: the database refuses a second."""

OWNED: Final = LIVE - {State.RECOVERING}
"""Live states whose writer is an owner."""

TERMINAL: Final = frozenset({State.COMPLETED, State.FAILED, State.STOPPED, State.SUPERSEDED, State.INTERRUPTED})
"""No move leaves these."""

UNENDED: Final = LIVE | {State.QUEUED}
"""Those of a turn that still will be."""

ASKED: Final = frozenset({State.STOPPED, State.SUPERSEDED})
"""Ends that somebody asked for.  A turn that was asked to end in one of them has it as its `reason`."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One move: who, from where, to where, and what must hold.

    sources: empty for a turn that does not exist yet.
    fenced: the mover's generation must be the turn's.
    slot_free: the chat has no active turn, and this one is the first in its queue.
    by_reason: a turn that has a reason goes to the state it names, and to no other.
    bumps: the chat's generation grows by one and becomes the turn's.
    takes_slot, frees_slot: the turn becomes, or ceases to be, the chat's active one.
    """

    actor: Actor
    sources: frozenset[State] = frozenset()
    targets: frozenset[State]
    fenced: bool = False
    slot_free: bool = False
    by_reason: bool = False
    bumps: bool = False
    takes_slot: bool = False
    frees_slot: bool = False


RULES: Final[dict[Move, Rule]] = {
    Move.SUBMIT: Rule(actor=Actor.API, targets=frozenset({State.QUEUED})),
    Move.CLAIM: Rule(
        actor=Actor.WORKER,
        sources=frozenset({State.QUEUED}),
        targets=frozenset({State.STARTING}),
        slot_free=True,
        bumps=True,
        takes_slot=True,
    ),
    Move.CALL: Rule(
        actor=Actor.OWNER,
        sources=frozenset({State.STARTING}),
        targets=frozenset({State.STREAMING}),
        fenced=True,
    ),
    Move.STOP: Rule(
        actor=Actor.API,
        sources=frozenset({State.STARTING, State.STREAMING}),
        targets=frozenset({State.STOPPING}),
    ),
    Move.FINISH: Rule(
        actor=Actor.OWNER,
        sources=OWNED,
        targets=TERMINAL,
        fenced=True,
        by_reason=True,
        frees_slot=True,
    ),
    Move.WITHDRAW: Rule(actor=Actor.API, sources=frozenset({State.QUEUED}), targets=ASKED),
    Move.TAKE_OVER: Rule(
        actor=Actor.REAPER,
        sources=LIVE,
        targets=frozenset({State.RECOVERING}),
        bumps=True,
    ),
    Move.FINALISE: Rule(
        actor=Actor.REAPER,
        sources=frozenset({State.RECOVERING}),
        targets=TERMINAL - {State.COMPLETED},
        fenced=True,
        by_reason=True,
        frees_slot=True,
    ),
}


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What a guard looks at.  `state` None: there is no such turn yet."""

    state: str | None
    generation: int = 0
    reason: str | None = None
    slot_free: bool = False


def permits(rule: Rule, at: Standing, to: State, *, generation: int | None = None) -> bool:
    """Whether this move may be made now.  `generation` is the mover's own, which a fenced move needs."""
    if to not in rule.targets:
        return False
    if at.state not in rule.sources and not (at.state is None and not rule.sources):
        return False
    if rule.fenced and generation != at.generation:
        return False
    if rule.slot_free and not at.slot_free:
        return False
    return not rule.by_reason or goes_by_reason(at.reason, to)


def goes_by_reason(reason: str | None, to: State) -> bool:
    """A turn ends as it was asked to, and is not said to have been asked when it was not."""
    return to == reason if reason is not None else to not in ASKED


def owns(state: str, generation: int, own: int) -> bool:
    """Whether the writer with the generation `own` may still write checkpoints of such a turn."""
    return state in OWNED and generation == own


class Step(StrEnum):
    """What an owner or a reaper does beside the moves."""

    TAKE = "take"
    OPEN = "open"
    FENCE = "fence"
    CALL = "call"
    STREAM = "stream"
    FOLD = "fold"
    COMMIT = "commit"
    TELL = "tell"


OWNING: Final = (Step.TAKE, Step.OPEN, Step.CALL, Step.STREAM, Step.COMMIT, Step.TELL)
RECOVERY: Final = (Step.TAKE, Step.FENCE, Step.FOLD, Step.COMMIT, Step.TELL)


class OnBusy(StrEnum):
    """What a submit does to a turn of the chat that has not ended."""

    INTERRUPT = "interrupt"
    REJECT = "reject"
    ENQUEUE = "enqueue"
    ROLLBACK = "rollback"


class Policy(msgspec.Struct, frozen=True):
    """refuses: the submit fails instead.  supersedes: the other ends, superseded.  discards: and leaves the prompt."""

    refuses: bool = False
    supersedes: bool = False
    discards: bool = False


POLICIES: Final[dict[OnBusy, Policy]] = {
    OnBusy.INTERRUPT: Policy(supersedes=True),
    OnBusy.REJECT: Policy(refuses=True),
    OnBusy.ENQUEUE: Policy(),
    OnBusy.ROLLBACK: Policy(supersedes=True, discards=True),
}
