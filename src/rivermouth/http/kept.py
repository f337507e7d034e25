"""Kept answers over HTTP: by their ids, and those that are made in the background.

    GET     <route>/ID                 the answer as it is; with stream=true its events, from the log of its call,
                                       waiting at the tail; where the log is gone, what the answer says
    DELETE  <route>/ID
    POST    <route>/ID/cancel
    GET     <route>/ID/input_items

A call in the background is a logged one that nobody has to read: a reader of our own keeps it going to its end, and
lets a log that is full forget its beginning.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qs

from rivermouth.dialects.dialect import Keeps, Operation
from rivermouth.engine.call import Call, Sink
from rivermouth.engine.engine import Engine
from rivermouth.engine.logged import Gone, LoggedCall, LoggedCalls, Unknown
from rivermouth.http.exchange import Exchange
from rivermouth.http.headers import identity
from rivermouth.http.resume import Logging, Wish, owner_of, read_out
from rivermouth.ir.errors import ApiError, Kind, invalid
from rivermouth.ir.request import Request
from rivermouth.kept.service import Asked, Kept, KeptAnswers
from rivermouth.log.answer import AnswerLog, BrokenOffError, Reader
from rivermouth.routing.catalog import Catalog
from rivermouth.routing.endpoint import Plan
from rivermouth.store.kept.port import Owner

NUMBER: Final = re.compile(r"\d{1,18}", re.ASCII)
PLAIN: Final = Wish()
TRUE: Final = frozenset({"true", "1"})
EVENT_STREAM: Final = b"text/event-stream"

Query = Mapping[str, Sequence[str]]


class KeptRoutes:
    """The handlers of the operations on kept answers, and of those that are made in the background."""

    def __init__(
        self, kept: KeptAnswers, logs: LoggedCalls, logging: Logging, engine: Engine, catalog: Catalog
    ) -> None:
        self._kept = kept
        self._logs = logs
        self._logging = logging
        self._engine = engine
        self._catalog = catalog
        self.handlers: Mapping[Operation, Callable[[Exchange], Awaitable[None]]] = {
            Operation.KEPT: self._get,
            Operation.KEPT_DELETE: self._delete,
            Operation.KEPT_CANCEL: self._cancel,
            Operation.KEPT_INPUT: self._input,
        }

    async def asked(self, exchange: Exchange, request: Request) -> Asked:
        """The request as it is served."""
        match = exchange.match
        return await self._kept.asked(match.dialect, match.route, request, owner(exchange))

    def watched(
        self, exchange: Exchange, asked: Asked, call: Call
    ) -> Callable[[Call, Sink], Coroutine[Any, Any, None]]:
        """The engine's way to the end of a call whose answer is kept."""
        return self._kept.through(self._kept.take(asked, call, owner(exchange)), self._engine.generate)

    # -- in the background --------------------------------------------------------------------------------------------

    async def placed(self, call: Call) -> float | None:
        """How long the answer may be kept; the call's plan has only those left who let it be kept.

        None: nobody may or can serve it, and the engine will say so.  Raises `ApiError` where nobody lets it be kept.
        """
        try:
            plan = await self._catalog.plan(call.request.model)
            candidates = self._engine.select(plan, call.policies, call.asked.needs).candidates
        except ApiError:
            return None
        keeping = [c for c in candidates if self._kept.longest_s([c]) > 0]
        if not keeping:
            text = "no answer of this model may be kept here, so none can be made in the background"
            raise invalid(text, "background", "not_kept")
        ids = {c.endpoint.id for c in keeping}
        call.plan = Plan(
            plan.model, tuple(c for c in plan.candidates if c.endpoint.id in ids), plan.order, plan.weights
        )
        return self._kept.longest_s(keeping)

    async def begin(self, exchange: Exchange, asked: Asked, call: Call, longest_s: float, *, stream: bool) -> None:
        """The call begins, and its client is told at once by which name to ask for it."""
        logged = self._logging.open(call, exchange.caller, PLAIN)
        if logged is None:
            raise ApiError(Kind.OVERLOADED, "there is no room for another call in the background", retry_after_s=5)
        kept = self._kept.take(asked, call, owner(exchange), longest_s)
        sink = self._logging.sink(logged, call, PLAIN, identity(call.id, exchange.client_id))
        listening = _Listening(logged.log)
        self._logging.run(logged, listening.around(self._kept.through(kept, self._engine.generate)(call, sink)))
        try:
            await sink.send(await kept.begin(), last=False)
            logged.keep()
        except BaseException:
            kept.cancel()
            raise
        finally:
            kept.ready.set()
        if stream:
            await read_out(logged, exchange.connection)
        else:
            await exchange.json(kept.answer)

    # -- by the id ----------------------------------------------------------------------------------------------------

    async def _get(self, exchange: Exchange) -> None:
        query, keeps = _query(exchange), _keeps(exchange)
        kept = await self._kept.get(_named(exchange), owner(exchange))
        if not _asks_stream(query):
            await exchange.json(kept.answer)
            return
        after = _after(query)
        logged = self._log_of(kept, owner(exchange))
        if logged is not None:
            try:
                offset = _seek(keeps, logged.log, after)
            except ApiError as error:
                if kept.ended is None or error.code != "events_gone":
                    raise
            else:
                await read_out(logged, exchange.connection, offset)
                return
        if kept.ended is None:
            raise invalid("its events are not kept: it is not made in the background", "stream")
        await exchange.sink.send(keeps.replay(kept.ended, after), last=True)

    def _log_of(self, kept: Kept, owner: Owner) -> LoggedCall | None:
        """The log of its events, if there is one that is whole or will be."""
        try:
            logged = self._logs.find(kept.call_id, owner)
        except (Unknown, Gone):
            return None
        log = logged.log
        streams = any(name == b"content-type" and value.startswith(EVENT_STREAM) for name, value in log.headers)
        return logged if streams and not log.broken else None

    async def _delete(self, exchange: Exchange) -> None:
        name = _named(exchange)
        await self._kept.delete(name, owner(exchange))
        await exchange.json(_keeps(exchange).deleted(name))

    async def _cancel(self, exchange: Exchange) -> None:
        await exchange.json(await self._kept.cancel(_named(exchange), owner(exchange)))

    async def _input(self, exchange: Exchange) -> None:
        name, query = _named(exchange), _query(exchange)
        await exchange.json(await self._kept.input_items(name, owner(exchange), _keeps(exchange), query))


class _Listening:
    """A reader of our own, from when it is made: nothing runs out, nobody waits for it, nothing is held for it."""

    def __init__(self, log: AnswerLog) -> None:
        self._log = log
        self._reader = Reader(log, log.first, _taken, _stay)
        log.join(self._reader)

    async def around(self, work: Awaitable[None]) -> None:
        reading = asyncio.ensure_future(self._read())
        try:
            await work
        finally:
            reading.cancel()
            await asyncio.wait({reading})
            self.leave()

    def leave(self) -> None:
        self._log.leave(self._reader)

    async def _read(self) -> None:
        last = not await self._reader.head()
        with contextlib.suppress(BrokenOffError):
            while not last:
                _, last = await self._reader.next()


def owner(exchange: Exchange) -> Owner:
    return Owner(*owner_of(exchange.caller))


def _keeps(exchange: Exchange) -> Keeps:
    dialect = exchange.match.dialect
    if dialect.keeps is None:
        raise TypeError(f"{dialect.name} routes kept answers and has no words for them")
    return dialect.keeps


def _named(exchange: Exchange) -> str:
    return exchange.match.model or ""


def _query(exchange: Exchange) -> Query:
    return parse_qs(exchange.query.decode("latin-1"), keep_blank_values=True)


def _asks_stream(query: Query) -> bool:
    return query.get("stream", ("",))[-1].lower() in TRUE


def _after(query: Query) -> int | None:
    said = query.get("starting_after", ())
    if not said:
        return None
    if len(said) > 1 or NUMBER.fullmatch(said[0]) is None:
        raise invalid("starting_after is the number of an event", "starting_after")
    return int(said[0])


def _seek(keeps: Keeps, log: AnswerLog, after: int | None) -> int:
    if after is None and not log.first:
        return 0
    return keeps.seek(log.piece, log.first, log.end, -1 if after is None else after)


def _taken(data: bytes) -> bool:
    """Nothing is done with it."""
    return True


def _stay() -> None:
    """There is no connection."""
