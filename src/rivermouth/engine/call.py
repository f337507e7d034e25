"""One call, and what the engine needs from both sides of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from rivermouth.dialects.dialect import Answer, Dialect, Route, Surface
from rivermouth.engine.asked import Asked
from rivermouth.engine.deadlines import Limits
from rivermouth.engine.interrupt import Interrupt
from rivermouth.engine.ledger import Ledger
from rivermouth.engine.output import Output, Translated
from rivermouth.engine.record import Opening
from rivermouth.engine.reservation import Reservation
from rivermouth.engine.transcript import Transcript
from rivermouth.ir.allowance import Allowance
from rivermouth.ir.errors import ApiError
from rivermouth.ir.request import EmbedRequest, Request
from rivermouth.providers.provider import NO_HEADERS, Upstream
from rivermouth.routing.endpoint import Candidate, Plan, Policy
from rivermouth.store.port import CallRecord, CallText


class Head(msgspec.Struct, frozen=True):
    """What the head of an answer says of it.  ignored: fields of the request that the target could not be given (R30).

    headers: what the target says of itself, by lower-case name (R18).
    """

    ignored: tuple[str, ...] = ()
    headers: Mapping[str, str] = NO_HEADERS


class Sink(Protocol):
    """The client's side of one call.  Every method may be called when the client is gone, and then does nothing."""

    started: bool

    def write(self, data: bytes) -> bool:
        """Stream bytes at once; False, and nothing is written, when only `send` can: it waits for a slow client."""
        ...

    async def send(self, data: bytes, *, last: bool, head: Head) -> None:
        """Stream bytes; the first send brings status 200 and the head, which later ones do not change."""
        ...

    async def document(self, body: bytes, *, head: Head) -> None:
        """The whole answer, status 200."""
        ...

    async def fail(self, error: ApiError) -> None:
        """An HTTP error in the dialect's envelope.  Only before anything was sent."""
        ...

    def hang_up(self) -> None:
        """Close the client's connection at once; what it has not taken is lost."""
        ...


class Keeper(Protocol):
    """Whoever keeps the answer of a call for its client."""

    def heard(self, candidate: Candidate, request: Request) -> Request:
        """That candidate is about to be asked: the request as it is put to it, saying whether the answer is kept."""
        ...

    @property
    def whole(self) -> bool:
        """The answer has come to its own end, and is what it will always be."""
        ...


class NotRecorded(Exception):
    """The call's open row could not be written; `error` says so to the client."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.message)
        self.error = error


class Call:
    """One call from its parsed request to its record: who asks, in which dialect, and how it stands.

    committed: part of the answer has reached the client; no other candidate may take over.
    total_at: when the total clock runs out, in the loop's time; set when the first target has begun.
    sole: no other endpoint can answer.  output, upstream: those of the attempt that runs.
    opening: the open row on its way into the store; None before it was begun, and once it is there.
    closing: upstreams of failed attempts that have been told to stop and have not confirmed it.
    plan: the candidates, where they are not those of the model's name.  policies: those of the request and of the
    caller, the narrowest first.  limits: the clocks of the client's surface, if it has its own.
    refused: why its caller may not ask for this model; the call ends with it, and nobody is asked.
    shorten: after a failed attempt, a smaller request that may fit; None when there is none.
    trace_context: the client's headers that name a trace, by lower-case name.
    keeps_text: the record may have what is said, where the operator wants that; a chat has its texts elsewhere.
    transcript: what is said, while that is so.
    keeper: keeps the answer for its client, where it is one that is kept.
    asked: the request, and what is counted of it.  long: it takes so long to walk that it is counted in a thread.
    """

    __slots__ = (
        "__weakref__",
        "allowance",
        "asked",
        "closing",
        "committed",
        "dialect",
        "interrupt",
        "keeper",
        "keeps_text",
        "ledger",
        "limits",
        "long",
        "opening",
        "output",
        "plan",
        "policies",
        "refused",
        "request",
        "reservation",
        "route",
        "shorten",
        "sole",
        "surface",
        "total_at",
        "trace_context",
        "transcript",
        "upstream",
    )

    def __init__(
        self,
        *,
        opened: CallRecord,
        dialect: Dialect,
        surface: Surface,
        route: Route,
        request: Request | EmbedRequest,
        clock_ns: Callable[[], int],
        plan: Plan | None = None,
        policies: tuple[Policy, ...] = (),
        refused: ApiError | None = None,
        limits: Limits | None = None,
        shorten: Callable[[ApiError], Request | None] | None = None,
        trace_context: Mapping[str, str] = NO_HEADERS,
        keeps_text: bool = False,
        long: bool = False,
    ) -> None:
        self.ledger = Ledger(opened, clock_ns)
        self.dialect = dialect
        self.surface = surface
        self.route = route
        self.ask(request)
        self.plan = plan
        self.policies = policies
        self.refused = refused
        self.limits = limits
        self.shorten = shorten
        self.trace_context = trace_context
        self.keeps_text = keeps_text
        self.long = long
        self.transcript: Transcript | None = None
        self.keeper: Keeper | None = None
        self.allowance: Allowance | None = None
        self.reservation: Reservation | None = None
        self.interrupt = Interrupt()
        self.committed = False
        self.total_at: float | None = None
        self.sole = True
        self.output: Output | None = None
        self.upstream: Upstream | None = None
        self.opening: Opening | None = None
        self.closing: set[asyncio.Future[None]] = set()

    @property
    def id(self) -> str:
        """The id in every header, frame and record of this call."""
        return self.ledger.opened.id

    def ask(self, request: Request | EmbedRequest) -> None:
        """What is asked from now on."""
        self.request = request
        self.asked = Asked(request)

    @property
    def streams(self) -> bool:
        """The client wants a stream."""
        return isinstance(self.request, Request) and self.request.stream

    def answer(self) -> Answer:
        """A fresh `Answer` for an encoder."""
        request = self.request if isinstance(self.request, Request) else None
        return Answer(
            id=self.id,
            model=self.request.model,
            created_ns=self.ledger.opened.started_ns,
            surface=self.surface,
            kind=self.route.kind,
            request=request,
            input_estimate=self.asked.tokens() if request is not None else 0,
        )

    def head(self) -> Head:
        """The head of the answer as the attempt that runs has it."""
        return Head(self.ledger.ignored, self.upstream.headers if self.upstream is not None else NO_HEADERS)

    def failure(self, error: ApiError) -> bytes:
        """The in-stream error for an answer that has begun (F14)."""
        out = self.output if self.committed else None
        return (out or Translated(self.dialect, self.answer())).fail(error)

    def text(self) -> CallText | None:
        """What was said, as far as that may be kept."""
        ledger = self.ledger
        if self.transcript is None:
            return None
        return self.transcript.text(ledger.opened.id, ledger.opened.started_ns, self.request, ledger.quoted)

    async def stored(self) -> None:
        """The open row is committed; waiting again costs nothing, and a cancelled wait does not undo it.

        Raises `NotRecorded`: nobody's fault but this server's, so no endpoint is to blame and none is tried.
        """
        if self.opening is not None:
            try:
                await self.opening.committed()
            except ApiError as error:
                raise NotRecorded(error) from None
            self.opening = None

    async def commit(self) -> None:
        """From here on the client has part of the answer; its record stands in the store first."""
        if not self.committed:
            await self.stored()
            self.committed = True
