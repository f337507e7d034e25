"""Which order of events is legal.  Providers, encoders and tests share this one checker.

The stream is one small machine and every part is another; both are tables, so the docs' diagram is drawn from them
and a test can walk every (state, event) pair.

    stream:  IDLE --Start--> OPEN --(parts, Usage, Warn, Unknown)*--> OPEN --Finish|Error--> DONE
             IDLE --Error--> DONE          (a call may fail before it began)
    part:    NEW --PartStart--> LIVE --(deltas of its kind)*--> LIVE --PartEnd--> CLOSED

Guards that are not in the tables: part numbers are dense from 0; no part is open at `Finish`; a tool call has an id
and a name; at most one `Signature` for each part.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    MediaDelta,
    PartEnd,
    PartKind,
    PartStart,
    ReasoningDelta,
    Signature,
    Start,
    TextDelta,
    Unknown,
    Usage,
    Warn,
)


class GrammarError(Exception):
    """An event that may not come here.  Always a fault of this program or of a provider, never of the client."""


class State(Enum):
    IDLE = "idle"
    OPEN = "open"
    DONE = "done"


STREAM: Final[dict[tuple[State, type], State]] = {
    (State.IDLE, Start): State.OPEN,
    (State.IDLE, Error): State.DONE,
    (State.OPEN, PartStart): State.OPEN,
    (State.OPEN, TextDelta): State.OPEN,
    (State.OPEN, ReasoningDelta): State.OPEN,
    (State.OPEN, Signature): State.OPEN,
    (State.OPEN, ArgsDelta): State.OPEN,
    (State.OPEN, MediaDelta): State.OPEN,
    (State.OPEN, PartEnd): State.OPEN,
    (State.OPEN, Usage): State.OPEN,
    (State.OPEN, Warn): State.OPEN,
    (State.OPEN, Unknown): State.OPEN,
    (State.OPEN, Finish): State.DONE,
    (State.OPEN, Error): State.DONE,
}

_ROWS: Final = {state: {kind: to for (at, kind), to in STREAM.items() if at is state} for state in State}
"""`STREAM` by state: an enum is hashed by a Python function, which is too dear for every event."""

DELTAS: Final[dict[PartKind, frozenset[type]]] = {
    PartKind.TEXT: frozenset({TextDelta}),
    PartKind.REFUSAL: frozenset({TextDelta}),
    PartKind.REASONING: frozenset({ReasoningDelta, Signature}),
    PartKind.TOOL: frozenset({ArgsDelta}),
    PartKind.IMAGE: frozenset({MediaDelta}),
    PartKind.FILE: frozenset({MediaDelta}),
}

_PART_EVENTS: Final = frozenset({TextDelta, ReasoningDelta, Signature, ArgsDelta, MediaDelta})


class Grammar:
    """Feed it every event in order; it raises `GrammarError` at the first that may not come."""

    __slots__ = ("_live", "_next", "_row", "_signed", "state")

    def __init__(self) -> None:
        self.state = State.IDLE
        self._row = _ROWS[State.IDLE]
        self._live: dict[int, frozenset[type]] = {}
        self._next = 0
        self._signed: set[int] = set()

    def feed(self, event: Event) -> None:
        """Move by one event."""
        kind = type(event)
        moved = self._row.get(kind)
        if moved is None:
            raise GrammarError(f"{kind.__name__} may not come in state {self.state.value}")
        if kind in _PART_EVENTS:
            allowed = self._live.get(event.part)  # type: ignore[union-attr]
            if allowed is None or kind not in allowed:
                raise GrammarError(f"{kind.__name__} for part {event.part}, which is not open for it")  # type: ignore[union-attr]
            if kind is Signature:
                self._sign(event.part)  # type: ignore[union-attr]
        elif kind is PartStart:
            self._start(event)  # type: ignore[arg-type]
        elif kind is PartEnd:
            if self._live.pop(event.part, None) is None:  # type: ignore[union-attr]
                raise GrammarError(f"PartEnd for part {event.part}, which is not open")  # type: ignore[union-attr]
        elif kind is Finish and self._live:
            raise GrammarError(f"Finish while parts {sorted(self._live)} are open")
        if moved is not self.state:
            self.state = moved
            self._row = _ROWS[moved]

    def feed_all(self, events: Iterable[Event]) -> None:
        """Move by several events."""
        for event in events:
            self.feed(event)

    @property
    def done(self) -> bool:
        """True after the one Finish or Error."""
        return self.state is State.DONE

    def _start(self, event: PartStart) -> None:
        if event.part != self._next:
            raise GrammarError(f"part {event.part} opened, {self._next} was due")
        named = bool(event.id) and bool(event.name) if event.kind is PartKind.TOOL else not (event.id or event.name)
        if not named:
            raise GrammarError(f"part {event.part}: a tool call, and nothing else, has an id and a name")
        self._next += 1
        self._live[event.part] = DELTAS[event.kind]

    def _sign(self, part: int) -> None:
        if part in self._signed:
            raise GrammarError(f"part {part} is signed twice")
        self._signed.add(part)
