"""All kept answers: what a request asks of them, those whose calls run, and those that are in the store.

    asked      a request's wishes: the talk before it is read and put there, and what it says of itself is made true
    take       its call is watched over from here
    get, delete, cancel, input_items       by the id, for the key that made it

The service outlives editions: `adopt` gives it other terms, which hold for calls that begin from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import msgspec
import structlog

from rivermouth.dialects.dialect import Dialect, Ended, Keeps, Route, Turn
from rivermouth.engine.call import Call, Sink
from rivermouth.ir.errors import ApiError, Kind, invalid
from rivermouth.ir.request import Keeping, Request, unkept
from rivermouth.kept.call import KeptCall, Run
from rivermouth.kept.chain import LINKS_CAP, MESSAGES_CAP, turn_of, turns_of
from rivermouth.kept.terms import Terms, longest_s
from rivermouth.routing.endpoint import Candidate
from rivermouth.store.kept.port import KeptAnswer, KeptStore, Owner

log: Final = structlog.get_logger()

INLINE_BYTES: Final = 256 * 1024
"""A longer talk is put together in a thread, so that nobody else waits for it (F34)."""
RECENT: Final = 200
"""How many answers, the newest first, are looked through for an item whose id says nothing."""
CANCEL_S: Final = 10.0
"""How long a cancel waits for the end of its call."""


class Asked(NamedTuple):
    """A request as it is served: with the whole talk, and `kept` as it is granted.  own: what was new in it."""

    request: Request
    own: bytes

    @property
    def kept(self) -> Keeping:
        return self.request.kept or Keeping(store=False)


class Kept(NamedTuple):
    """An answer for whoever asks.  ended: None while its call runs."""

    call_id: str
    answer: bytes
    ended: Ended | None


class KeptAnswers:
    """`async with KeptAnswers(...)`: what a killed server left in progress has failed when this begins."""

    def __init__(
        self, store: KeptStore, terms: Terms, dialects: Mapping[str, Dialect], clock_ns: Callable[[], int]
    ) -> None:
        self._store = store
        self._terms = terms
        self._dialects = dialects
        self._clock_ns = clock_ns
        self._running: dict[str, KeptCall] = {}

    async def __aenter__(self) -> Self:
        left = await self._store.unended()
        for kept in left:
            answer = self._keeps(kept).interrupted(kept.answer)
            await self._store.finish(msgspec.structs.replace(kept, answer=answer, ended_ns=self._clock_ns()))
        if left:
            log.warning("kept.interrupted", count=len(left))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._store.close()

    def adopt(self, terms: Terms) -> None:
        self._terms = terms

    # -- requests -----------------------------------------------------------------------------------------------------

    async def asked(self, dialect: Dialect, route: Route, request: Request, owner: Owner) -> Asked:
        """Raises `ApiError` for what is not there, is somebody else's, or cannot be had here."""
        keeps, original = dialect.keeps, request.original
        if keeps is None or original is None:
            raise TypeError(f"{dialect.name} keeps no answers")
        wish = request.kept or Keeping()
        if not self._terms.store:
            return Asked(unkept(request), b"[]")
        if wish.conversation is not None:
            text = (
                "no conversations are kept here: go on from a response (previous_response_id), or send the whole talk"
            )
            raise invalid(text, "conversation")
        if wish.background and wish.store is False:
            raise invalid("a response in the background has to be stored", "background")
        if wish.background and not self._terms.background:
            raise invalid("no calls go on without a connection here", "background", "background_off")
        turns = await self._before(wish.previous, owner) if wish.previous is not None else ()
        found = await self._found(keeps, wish.references, owner)
        granted = Keeping(store=wish.store is not False, previous=wish.previous, background=wish.background)

        def whole() -> Asked:
            own = keeps.own(original.fields, found)
            if not turns and not found:
                return Asked(msgspec.structs.replace(request, kept=granted), own)
            body = keeps.joined(original.fields, own, turns)
            if len(body) > self._terms.talk_bytes:
                text = f"with what goes before it the input is longer than {self._terms.talk_bytes} bytes"
                raise invalid(text, "input", "previous_response_too_long")
            again = dialect.parse_request(body, route, request.model)
            if len(again.messages) > MESSAGES_CAP:
                text = f"with what goes before it a talk has at most {MESSAGES_CAP} messages here"
                raise ApiError(Kind.TOO_LARGE, text, param="input")
            kept = again.original or original
            passed = msgspec.structs.replace(kept, headers=original.headers)
            return Asked(msgspec.structs.replace(again, kept=granted, original=passed), own)

        size = sum(len(turn.input) + len(turn.answer or b"") for turn in turns) + len(original.fields.get("input", b""))
        return await asyncio.to_thread(whole) if size > INLINE_BYTES else whole()

    def take(self, asked: Asked, call: Call, owner: Owner, longest_s: float | None = None) -> KeptCall:
        """The call's answer is to be kept; longest_s: where it is known already for how long."""
        keeps = call.dialect.keeps
        if keeps is None:
            raise TypeError(f"{call.dialect.name} keeps no answers")
        longest = self._terms.ttl_s if longest_s is None else longest_s
        kept = KeptCall(
            self._store, call, keeps, owner=owner, own=asked.own, longest_s=longest, clock_ns=self._clock_ns
        )
        call.keeper = kept
        return kept

    def through(self, kept: KeptCall, run: Run) -> Callable[[Call, Sink], Coroutine[Any, Any, None]]:
        """The engine's way to the end of that call, and on to that of its answer."""

        async def watched(call: Call, sink: Sink) -> None:
            self._running[kept.id] = kept
            try:
                await kept.run(run, sink)
            finally:
                del self._running[kept.id]

        return watched

    def longest_s(self, candidates: Sequence[Candidate]) -> float:
        """How long an answer may be kept, whichever of these gives it."""
        return min((longest_s(candidate, self._terms.ttl_s) for candidate in candidates), default=0.0)

    async def _before(self, previous: str, owner: Owner) -> tuple[Turn, ...]:
        limit_bytes = self._terms.talk_bytes
        links = await self._store.chain(previous, owner, self._clock_ns(), LINKS_CAP, limit_bytes)
        return turns_of(previous, links, limit_bytes)

    async def _found(self, keeps: Keeps, references: Sequence[tuple[str, str]], owner: Owner) -> dict[str, bytes]:
        """The items that a request names by their ids alone."""
        found: dict[str, bytes] = {}
        for field, name in references:
            item = found.get(name) or await self._item(keeps, name, owner)
            if item is None:
                raise invalid(f"there is no item '{name[:100]}' here", field, "item_not_found")
            found[name] = item
        return found

    async def _item(self, keeps: Keeps, name: str, owner: Owner) -> bytes | None:
        call_id = keeps.call_id(name)
        now_ns = self._clock_ns()
        kept = await self._store.get(keeps.answer_id(call_id), owner, now_ns) if call_id is not None else None
        item = keeps.item(turn_of(kept), name) if kept is not None else None
        if item is not None:
            return item
        for recent in await self._store.holding(name, owner, now_ns, RECENT):  # ids that an upstream has made
            item = keeps.item(turn_of(recent), name)
            if item is not None:
                return item
        return None

    # -- answers ------------------------------------------------------------------------------------------------------

    async def get(self, answer_id: str, owner: Owner) -> Kept:
        """Raises `ApiError` not_found."""
        running = self._mine(answer_id, owner)
        if running is not None:
            return Kept(running.call.id, running.answer, running.ended)
        kept = await self._row(answer_id, owner)
        ended = Ended(kept.answer, kept.last) if kept.ended_ns is not None else None
        return Kept(kept.call_id, kept.answer, ended)

    async def delete(self, answer_id: str, owner: Owner) -> None:
        """A call in the background ends with it.  Raises `ApiError` not_found."""
        running = self._mine(answer_id, owner)
        if running is not None:
            running.forget()
            if running.background:
                running.cancel()
        gone = await self._store.delete(answer_id, owner, self._clock_ns())
        if not gone and running is None:
            raise _unknown(answer_id)

    async def cancel(self, answer_id: str, owner: Owner) -> bytes:
        """The answer as it is when its call has ended.  Again, or when it had ended before, it is what it was."""
        running = self._mine(answer_id, owner)
        if running is None:
            kept = await self._row(answer_id, owner)
            _check_background(background=kept.background)
            return kept.answer
        _check_background(background=running.background)
        running.cancel()
        try:
            async with asyncio.timeout(CANCEL_S):
                await running.settled.wait()
        except TimeoutError:
            log.warning("kept.slow_cancel", call=running.call.id)
        return running.answer

    async def input_items(
        self, answer_id: str, owner: Owner, keeps: Keeps, query: Mapping[str, Sequence[str]]
    ) -> bytes:
        """A page of what was read for it, with the turns before it as far as they are there."""
        running = self._mine(answer_id, owner)
        turns = [running.turn] if running is not None else []
        begins = running.wish.previous if running is not None else answer_id
        limit_bytes = self._terms.talk_bytes
        links = (
            await self._store.chain(begins, owner, self._clock_ns(), LINKS_CAP, limit_bytes)
            if begins is not None
            else ()
        )
        if running is None and not links:
            raise _unknown(answer_id)
        before = [turn_of(link) for link in reversed(links)]
        if running is None:
            before[-1] = before[-1]._replace(answer=None)
        page = [*before, *turns]
        if sum(len(turn.input) + len(turn.answer or b"") for turn in page) > INLINE_BYTES:
            return await asyncio.to_thread(keeps.input_items, page, query)
        return keeps.input_items(page, query)

    def _mine(self, answer_id: str, owner: Owner) -> KeptCall | None:
        running = self._running.get(answer_id)
        return running if running is not None and running.owner == owner and running.kept else None

    async def _row(self, answer_id: str, owner: Owner) -> KeptAnswer:
        kept = await self._store.get(answer_id, owner, self._clock_ns()) if self._terms.store else None
        if kept is None:
            raise _unknown(answer_id)
        return kept

    def _keeps(self, kept: KeptAnswer) -> Keeps:
        keeps = self._dialects[kept.dialect].keeps
        if keeps is None:
            raise TypeError(f"{kept.dialect} keeps no answers")
        return keeps


def _check_background(*, background: bool) -> None:
    if not background:
        raise invalid("only a response that is made in the background can be cancelled", "background")


def _unknown(answer_id: str) -> ApiError:
    return ApiError(Kind.NOT_FOUND, f"Response with id '{answer_id[:100]}' not found.", code="response_not_found")
