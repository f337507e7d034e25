"""A fake upstream that plays the task in one dialect, with the faults of a case.

It keeps nothing of a conversation: what it answers follows from the request.  What it keeps is what it was asked, run by
run; the model's name says which run a request belongs to.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec

from tests.agents import anthropic_wire, openai_wire
from tests.agents.cases import RETRY_AFTER_S, Fault, Kind
from tests.agents.stream import Piece, through
from tests.agents.task import Move, Seen, next_move, of_the_task, step
from tests.fakes import JSON, SSE, Asked, FakeUpstream

LIMITED: Final = 429
REFUSED: Final = 400


class Wire(msgspec.Struct, frozen=True):
    """A dialect as this fake speaks it."""

    path: str
    overloaded: int
    read: Callable[[dict[str, Any]], Seen]
    stream: Callable[[Move, str, int, dict[str, Any]], list[Piece]]
    document: Callable[[Move, str, int], bytes]
    failure: Callable[[int, str], bytes]


WIRES: Final = {
    "openai": Wire(
        openai_wire.PATH,
        openai_wire.OVERLOADED,
        openai_wire.read,
        openai_wire.stream,
        openai_wire.document,
        openai_wire.failure,
    ),
    "anthropic": Wire(
        anthropic_wire.PATH,
        anthropic_wire.OVERLOADED,
        anthropic_wire.read,
        anthropic_wire.stream,
        anthropic_wire.document,
        anthropic_wire.failure,
    ),
}


class Post(msgspec.Struct, frozen=True):
    """One request that came.  struck: its answer was spoilt."""

    seen: Seen
    streams: bool
    struck: bool

    @property
    def of_the_task(self) -> bool:
        return of_the_task(self.seen)


class Run:
    """What one run of an agent asked of its upstream."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.posts: list[Post] = []

    def asked(self, seen: Seen, *, streams: bool) -> Post:
        """Keeps it, and tells whether the fault strikes: once, and never at what is asked beside the task."""
        strikes = (
            self.fault.kind is not Kind.NONE
            and of_the_task(seen)
            and step(seen) == self.fault.step
            and not any(post.struck for post in self.posts)
        )
        post = Post(seen, streams, strikes)
        self.posts.append(post)
        return post


class TaskUpstream:
    """Listens on a port of its own while inside."""

    def __init__(self, dialect: str) -> None:
        self.wire = WIRES[dialect]
        self.runs: dict[str, Run] = {}
        self.strangers: list[str] = []
        self._fake = FakeUpstream(self._answer)

    @property
    def url(self) -> str:
        return self._fake.url

    async def __aenter__(self) -> TaskUpstream:
        await self._fake.__aenter__()
        return self

    async def __aexit__(self, *why: Any) -> None:
        await self._fake.__aexit__(*why)

    async def _answer(self, asked: Asked) -> None:
        try:
            await self._play(asked)
        except ConnectionError:
            pass  # whoever asked has gone

    async def _play(self, asked: Asked) -> None:
        body = json.loads(asked.body) if asked.method == "POST" else {}
        run = self.runs.get(body.get("model", ""))
        if asked.path.partition("?")[0] != self.wire.path or run is None:
            self.strangers.append(f"{asked.method} {asked.path} {body.get('model')}")
            await asked.answer(404, JSON, self.wire.failure(404, "no such path, or no such model"))
            return
        streams = body.get("stream") is True
        post = run.asked(self.wire.read(body), streams=streams)
        if post.seen.problems:
            await asked.answer(REFUSED, JSON, self.wire.failure(REFUSED, "; ".join(post.seen.problems)))
            return
        kind = run.fault.kind if post.struck else Kind.NONE
        if kind is Kind.OVERLOADED:
            await asked.answer(self.wire.overloaded, JSON, self.wire.failure(self.wire.overloaded, "overloaded"))
            return
        if kind is Kind.LIMITED:
            slow = self.wire.failure(LIMITED, "too many requests")
            await asked.answer(LIMITED, JSON, slow, retry_after=str(RETRY_AFTER_S))
            return
        move, number = next_move(post.seen), len(run.posts)
        if not streams:
            await asked.answer(200, JSON, self.wire.document(move, body["model"], number))
            return
        await asked.head(200, SSE)
        pieces = self.wire.stream(move, body["model"], number, body)
        if kind is Kind.NONE:
            await _send(asked, pieces)
            await asked.end()
            return
        await _send(asked, through(pieces, run.fault.tag, run.fault.times))
        if kind is Kind.CUT:
            asked.cut()
        else:
            await asked.gone()


async def _send(asked: Asked, pieces: list[Piece]) -> None:
    for piece in pieces:
        await asked.send(piece.data)
