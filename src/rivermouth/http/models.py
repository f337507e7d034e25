"""The models of this machine over HTTP: what runs, pull, copy, delete, show, load and unload.

Only Ollama has routes for these today; the words are the dialect's (`bodies`, `documents`), the work is `local`'s.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

from rivermouth.dialects.dialect import Answer, Dialect, Operation, ServerInfo
from rivermouth.engine.interrupt import By, Interrupt, Stopped
from rivermouth.http.body import Receive
from rivermouth.http.disconnect import Watched
from rivermouth.http.headers import JSON
from rivermouth.http.routes import Match
from rivermouth.http.sink import AsgiSink
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.request import Request
from rivermouth.local.provider import LocalProvider
from rivermouth.local.sources.pull import SUCCESS, PullProgress
from rivermouth.routing.catalog import NAMELESS, Catalog


class Models:
    """Handlers by operation; `serve` finds the one for a route.  `pulls`: where those that run are kept."""

    def __init__(self, *, local: LocalProvider, catalog: Catalog, version: str, pulls: set[Interrupt]) -> None:
        self._local = local
        self._catalog = catalog
        self._version = version
        self._pulls = pulls
        self._handlers: Mapping[Operation, Callable[[Visit], Awaitable[None]]] = {
            Operation.RUNNING: self._running,
            Operation.VERSION: self._version_of,
            Operation.PULL: self._pull,
            Operation.COPY: self._copy,
            Operation.DELETE: self._delete,
            Operation.INFO: self._info,
            Operation.HEALTH: self._health,
        }

    async def serve(self, match: Match, body: bytes, answer: Answer, sink: AsgiSink, receive: Receive) -> None:
        """One request for one of these operations."""
        await self._handlers[match.route.operation](Visit(match, body, answer, sink, receive))

    async def stand_by(self, match: Match, request: Request, answer: Answer, sink: AsgiSink) -> None:
        """A request with nothing to answer: load the model, or unload it.  One document, never a stream."""
        plan = await self._catalog.plan(request.model)
        endpoint = plan.candidates[0].endpoint
        if endpoint.provider == self._local.name:
            await self._local.stand_by(request, endpoint.model)
        await sink.document(match.dialect.documents[Operation.GENERATE](request, answer))

    async def _running(self, visit: Visit) -> None:
        encode = visit.dialect.encode_models
        if encode is None:
            raise TypeError(f"{visit.dialect.name} routes its running models and cannot encode them")
        await visit.sink.document(encode(self._local.running(), visit.match.route))

    async def _version_of(self, visit: Visit) -> None:
        await visit.sink.document(visit.document(self._version))

    async def _info(self, visit: Visit) -> None:
        """What answers where a protocol names no model (R15)."""
        info = ServerInfo(version=self._version, model=await self._catalog.model(NAMELESS[0]))
        await visit.sink.document(visit.document(info))

    async def _health(self, visit: Visit) -> None:
        await visit.sink.document(visit.document(None))

    async def _copy(self, visit: Visit) -> None:
        asked = visit.parsed()
        await self._local.copy(asked.source, asked.destination)
        await visit.sink.answer(200, b"", [JSON])

    async def _delete(self, visit: Visit) -> None:
        await self._local.delete(visit.parsed())
        await visit.sink.answer(200, b"", [JSON])

    async def _pull(self, visit: Visit) -> None:
        """Frames until the one end; a client that leaves stops the download, unless somebody else follows it."""
        asked = visit.parsed()
        interrupt = Interrupt()
        self._pulls.add(interrupt)
        with Watched(visit.receive, lambda: interrupt.cancel(By.CLIENT)):
            try:
                with interrupt:
                    async with aclosing(self._local.pull(asked.model, asked.accept_license)) as frames:
                        await self._follow(visit, frames, stream=asked.stream)
            except Stopped as stopped:
                if stopped.by is not By.CLIENT:
                    await self._fail(visit, ApiError(Kind.OVERLOADED, "the server is shutting down"))
            except ApiError as error:
                await self._fail(visit, error)
            finally:
                self._pulls.discard(interrupt)

    async def _fail(self, visit: Visit, error: ApiError) -> None:
        """The one bad end of a pull, in its stream if that has begun."""
        if not visit.sink.started:
            raise error
        await visit.sink.send(visit.document(error), last=True)

    async def _follow(self, visit: Visit, frames: AsyncIterator[PullProgress], *, stream: bool) -> None:
        """Each frame as it comes; without a stream the last alone."""
        async for frame in frames:
            last = frame.status == SUCCESS.status
            if stream:
                await visit.sink.send(visit.document(frame), last=last)
            elif last:
                await visit.sink.document(visit.document(frame))


class Visit:
    """One request for one of these operations."""

    __slots__ = ("answer", "body", "match", "receive", "sink")

    def __init__(self, match: Match, body: bytes, answer: Answer, sink: AsgiSink, receive: Receive) -> None:
        self.match = match
        self.body = body
        self.answer = answer
        self.sink = sink
        self.receive = receive

    @property
    def dialect(self) -> Dialect:
        return self.match.dialect

    def parsed(self) -> Any:
        """The body as the dialect reads it."""
        return self.dialect.bodies[self.match.route.operation](self.body)

    def document(self, value: Any) -> bytes:
        """A value in the dialect's words."""
        return self.dialect.documents[self.match.route.operation](value, self.answer)
