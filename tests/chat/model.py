"""Every interleaving of small chats: owners, a reaper, users, a follower, crashes and a lost log.

The rows move only by `machine.RULES`, and owners and reaper do their steps in the order of `machine.OWNING` and
`machine.RECOVERY`, so what is explored is the table that the program runs by.  The model is harsher than the world: a
lease may be thought expired at any moment, a writer may be paused for ever between any two steps, and whoever crashes
leaves everything as it stands.

The text of an answer is the number of its chunks: chunk k says that k chunks came before it, so a follower that has
seen k of them and gets another number has found a gap or a repetition.

    explore(Size(turns=1, chunks=2, crashes=1, losses=1)) -> Explored(states=..., ...)      raises Violation
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rivermouth.chat.machine import (
    LIVE,
    OWNING,
    RECOVERY,
    RULES,
    TERMINAL,
    Move,
    Rule,
    Standing,
    State,
    Step,
    owns,
    permits,
)


class Size(NamedTuple):
    """How much there is: turns submitted, chunks in an answer, crashes, and times the log is lost."""

    turns: int = 1
    chunks: int = 2
    crashes: int = 1
    losses: int = 0


class Laws(NamedTuple):
    """What is in force.  append_revives: a log that was lost begins anew with whatever comes.  reopens_unasked: its
    writer begins it anew without asking the store whether the turn is still its own."""

    rules: Mapping[Move, Rule] = RULES
    owning: tuple[Step, ...] = OWNING
    recovery: tuple[Step, ...] = RECOVERY
    append_revives: bool = False
    reopens_unasked: bool = False


class Turn(NamedTuple):
    state: State = State.QUEUED
    generation: int = 0
    reason: State | None = None
    text: int = 0
    calls: int = 0


class Writer(NamedTuple):
    """An owner, or the reaper.  at: the index of its next step; GONE when it will do nothing more."""

    turn: int
    at: int = 0
    generation: int = 0
    seq: int = 0
    text: int = 0
    reviving: bool = False


class Reader(NamedTuple):
    """Follows turn 0 by its cursor."""

    cursor: tuple[int, int] = (0, -1)
    shown: int = 0
    ended: bool = False


class World(NamedTuple):
    generation: int = 0
    active: int | None = None
    turns: tuple[Turn, ...] = ()
    log: tuple[tuple[Any, ...], ...] | None = None  # (id, kind, turn, text, state)
    owners: tuple[Writer, ...] = ()
    reaper: Writer | None = None
    reader: Reader = Reader()
    crashes: int = 0
    losses: int = 0


class Explored(NamedTuple):
    states: int
    transitions: int
    quiet: int


class Violation(AssertionError):
    """A world that must not be, and how it came to be."""


class Forbidden(Exception):
    """Found inside a step: it is a violation whose history is not yet known."""


GONE = 99


def explore(size: Size, laws: Laws = Laws()) -> Explored:  # noqa: B008 - a value
    """Walks through all worlds.  Raises `Violation` with the shortest way to the first bad one."""
    first = World()
    came_from: dict[World, tuple[World, str] | None] = {first: None}
    todo, transitions, quiet = deque([first]), 0, 0
    while todo:
        world = todo.popleft()
        try:
            steps = list(_steps(world, size, laws))
            if len(world.turns) == size.turns and all(name in ("stop", "lose the log") for name, _ in steps):
                quiet += 1
                _judge_quiet(world)
            for _, after in steps:
                transitions += 1
                _judge(world, after)
        except Forbidden as found:
            raise Violation(f"{found}, after: {' > '.join(_way(came_from, world))}") from None
        for name, after in steps:
            if after not in came_from:
                came_from[after] = (world, name)
                todo.append(after)
    return Explored(len(came_from), transitions, quiet)


def _way(came_from: dict[World, tuple[World, str] | None], world: World) -> list[str]:
    names = []
    while (before := came_from[world]) is not None:
        world = before[0]
        names.append(before[1])
    return names[::-1]


# -- what must hold


def _judge(before: World, after: World) -> None:
    live = [i for i, turn in enumerate(after.turns) if turn.state in LIVE]
    if len(live) > 1:
        raise Forbidden(f"two live turns {live}")
    if live and after.active != live[0]:
        raise Forbidden("the active turn is not the live one")
    for old, new in zip(before.turns, after.turns, strict=False):
        if old.state in TERMINAL and new != old:
            raise Forbidden(f"a turn that had ended was written: {old} -> {new}")
        if new.text < old.text and not after.losses:
            raise Forbidden(f"a row lost text: {old} -> {new}")
        if new.calls > 1:
            raise Forbidden("two calls for one turn")
    if after.reader.ended and not after.losses and after.turns[0].text < before.reader.shown:
        raise Forbidden(f"shown {before.reader.shown} chunks, kept {after.turns[0].text}")


def _judge_quiet(world: World) -> None:
    if any(turn.state not in TERMINAL for turn in world.turns):
        raise Forbidden(f"a turn hangs: {world.turns}")
    if not world.reader.ended:
        raise Forbidden("the follower hangs")


# -- what can happen


def _steps(world: World, size: Size, laws: Laws) -> Iterator[tuple[str, World]]:
    yield from _users(world, size, laws)
    for index, owner in enumerate(world.owners):
        if owner.at != GONE:
            yield from _owner(world, index, owner, size, laws)
    yield from _reaper(world, size, laws)
    yield from _reader(world)
    if world.log is not None and world.losses < size.losses:
        yield "lose the log", world._replace(log=None, losses=world.losses + 1)


def _moved(
    world: World,
    index: int,
    move: Move,
    to: State,
    laws: Laws,
    generation: int | None = None,
    **more: Any,
) -> World | None:
    """The world after a move by the table; None where the table forbids it."""
    rule, turn = laws.rules[move], world.turns[index]
    head = next((i for i, other in enumerate(world.turns) if other.state is State.QUEUED), None)
    at = Standing(
        state=turn.state,
        generation=turn.generation,
        reason=turn.reason,
        slot_free=world.active is None and head == index,
    )
    if not permits(rule, at, to, generation=generation):
        return None
    number = world.generation + 1 if rule.bumps else world.generation
    turn = turn._replace(state=to, generation=number if rule.bumps else turn.generation, **more)
    active = index if rule.takes_slot else world.active
    if rule.frees_slot and active == index:
        active = None
    turns = (*world.turns[:index], turn, *world.turns[index + 1 :])
    return world._replace(generation=number, active=active, turns=turns)


def _users(world: World, size: Size, laws: Laws) -> Iterator[tuple[str, World]]:
    if len(world.turns) < size.turns:
        yield "submit", _submitted(world, laws)
    for index in range(len(world.turns)):
        stopped = _moved(world, index, Move.STOP, State.STOPPING, laws, reason=State.STOPPED)
        if stopped is not None:
            yield "stop", stopped


def _submitted(world: World, laws: Laws) -> World:
    """With the default policy: what is live is asked to stop, what waits is withdrawn, the new turn waits."""
    for index in range(len(world.turns)):
        world = _moved(world, index, Move.STOP, State.STOPPING, laws, reason=State.SUPERSEDED) or world
        world = _moved(world, index, Move.WITHDRAW, State.SUPERSEDED, laws) or world
    return world._replace(turns=(*world.turns, Turn()), owners=(*world.owners, Writer(len(world.turns))))


def _appended(
    world: World, writer: Writer, kind: str, laws: Laws, *, opening: bool, state: State | None = None
) -> tuple[World, str]:
    ident = (writer.generation, writer.seq)
    if world.log is None and not (opening or laws.append_revives):
        return world, "lost"
    log = world.log or ()
    if log and ident <= log[-1][0]:
        return world, "fenced"
    if kind in ("say", "snap") and world.turns[writer.turn].state in TERMINAL and not world.losses:
        raise Forbidden(f"{kind} {ident} after the end of its turn")
    return world._replace(log=(*log, (ident, kind, writer.turn, writer.text, state))), "ok"


def _owner(world: World, index: int, owner: Writer, size: Size, laws: Laws) -> Iterator[tuple[str, World]]:
    def now(after: World, **changes: Any) -> World:
        owners = (*after.owners[:index], owner._replace(**changes), *after.owners[index + 1 :])
        return after._replace(owners=owners)

    turn, step = world.turns[owner.turn], laws.owning[owner.at]
    name = f"{step.value} {index}"
    if world.crashes < size.crashes and step is not Step.TAKE:
        yield f"owner {index} dies", now(world, at=GONE)._replace(crashes=world.crashes + 1)
    match step:
        case Step.TAKE:
            claimed = _moved(world, owner.turn, Move.CLAIM, State.STARTING, laws)
            if claimed is not None:
                yield name, now(claimed, at=owner.at + 1, generation=claimed.generation)
            elif turn.state in TERMINAL:
                yield name, now(world, at=GONE)
        case Step.OPEN:
            after, landed = _appended(world, owner, "open", laws, opening=True)
            yield name, now(after, at=owner.at + 1, seq=1) if landed == "ok" else now(after, at=GONE)
        case Step.CALL:
            calls = turn.calls + 1
            called = _moved(world, owner.turn, Move.CALL, State.STREAMING, laws, owner.generation, calls=calls)
            if called is not None:
                yield name, now(called, at=owner.at + 1)
            else:
                mine = owns(turn.state, turn.generation, owner.generation)
                yield name, now(world, at=owner.at + 2 if mine else GONE)
        case Step.STREAM:
            yield from _stream(world, owner, size, laws, now, name)
        case Step.COMMIT:
            to = turn.reason or State.COMPLETED
            done = _moved(world, owner.turn, Move.FINISH, to, laws, owner.generation, text=owner.text)
            yield name, now(done, at=_after(laws.owning, owner.at)) if done is not None else now(world, at=GONE)
        case Step.TELL:
            after, _ = _appended(world, owner, "end", laws, opening=False, state=turn.state)
            yield name, now(after, at=_after(laws.owning, owner.at))


def _after(steps: tuple[Step, ...], at: int) -> int:
    return at + 1 if at + 1 < len(steps) else GONE


def _stream(world: World, owner: Writer, size: Size, laws: Laws, now: Any, name: str) -> Iterator[tuple[str, World]]:
    turn = world.turns[owner.turn]
    mine = owns(turn.state, turn.generation, owner.generation)
    if owner.reviving:  # the store said that the turn was still ours; by now it may not be
        after, landed = _appended(world, owner, "snap", laws, opening=True)
        yield f"snap {name}", (now(after, reviving=False, seq=owner.seq + 1) if landed == "ok" else now(after, at=GONE))
        return
    if owner.text < size.chunks:
        after, landed = _appended(world, owner, "say", laws, opening=False)
        if landed == "ok":
            yield name, now(after, seq=owner.seq + 1, text=owner.text + 1)
        elif landed == "lost":
            may = mine or laws.reopens_unasked
            yield f"verify {name}", now(after, reviving=True) if may else now(after, at=GONE)
        else:
            yield f"fenced {name}", now(after, at=GONE)
    if mine and turn.text < owner.text:
        kept = (*world.turns[: owner.turn], turn._replace(text=owner.text), *world.turns[owner.turn + 1 :])
        yield f"checkpoint {name}", now(world._replace(turns=kept))
    if owner.text == size.chunks or turn.state is State.STOPPING or not mine:
        yield f"leave {name}", now(world, at=owner.at + 1)


def _reaper(world: World, size: Size, laws: Laws) -> Iterator[tuple[str, World]]:
    reaper = world.reaper
    if reaper is None:
        for index in range(len(world.turns)):
            taken = _moved(world, index, Move.TAKE_OVER, State.RECOVERING, laws)
            if taken is not None:
                text = taken.turns[index].text
                yield f"take over {index}", taken._replace(reaper=Writer(index, 1, taken.generation, 0, text))
        return
    step, turn = laws.recovery[reaper.at], world.turns[reaper.turn]
    if world.crashes < size.crashes:
        yield "the reaper dies", world._replace(reaper=None, crashes=world.crashes + 1)
    at = _after(laws.recovery, reaper.at)
    onward = reaper._replace(at=at) if at != GONE else None
    match step:
        case Step.FENCE:
            after, landed = _appended(world, reaper, "fence", laws, opening=True)
            yield "fence", after._replace(reaper=onward and onward._replace(seq=1) if landed == "ok" else None)
        case Step.FOLD:
            told = [
                entry[3] + 1 if entry[1] == "say" else entry[3] for entry in world.log or () if entry[2] == reaper.turn
            ]
            yield "fold", world._replace(reaper=onward and onward._replace(text=max([turn.text, *told])))
        case Step.COMMIT:
            to = turn.reason or State.INTERRUPTED
            done = _moved(world, reaper.turn, Move.FINALISE, to, laws, reaper.generation, text=reaper.text)
            yield "finalise", done._replace(reaper=onward) if done is not None else world._replace(reaper=None)
        case Step.TELL:
            after, _ = _appended(world, reaper, "end", laws, opening=False, state=turn.state)
            yield "tell", after._replace(reaper=onward)


def _reader(world: World) -> Iterator[tuple[str, World]]:
    reader = world.reader
    if reader.ended or not world.turns:
        return
    found = next((entry for entry in world.log or () if entry[0] > reader.cursor), None)
    row = world.turns[0]
    if found is None:
        if row.state in TERMINAL:  # nothing more in the log: the row says how it ended
            yield "read the row", world._replace(reader=reader._replace(shown=row.text, ended=True))
        return
    ident, kind, turn, text, state = found
    after = reader._replace(cursor=ident)
    if turn == 0:
        if kind == "say":
            if text != reader.shown:
                raise Forbidden(f"a gap or a repetition: {reader.shown} chunks were shown, then came chunk {text}")
            after = after._replace(shown=text + 1)
        elif kind == "snap":
            if text < reader.shown:
                raise Forbidden("a snapshot took text back")
            after = after._replace(shown=text)
        elif kind == "end":
            if row.state not in TERMINAL:
                raise Forbidden("the end was told before it was true")
            if (row.text, row.state) != (text, state):
                raise Forbidden(f"the end tells {text}, {state}; the row says {row}")
            after = after._replace(shown=text, ended=True)
    yield "read", world._replace(reader=after)
