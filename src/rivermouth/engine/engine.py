"""One call: plan -> attempts -> exactly one end, exactly one record.

    generate / embed
      └─ plan the candidates                  routing.catalog
      └─ until one has answered:              routing.attempts.next_step decides, this loop only obeys
           prepare, open, pump                one attempt; its output is its own until it commits
      └─ tell the client how it ended         a document, an HTTP error, or the dialect's in-stream error
      └─ close the record                     after the upstream has confirmed that it stopped

The commit point is the first content event.  Before it nothing of an attempt has reached the client and another
candidate may take over; after it a failure is an error in the stream, never a silent restart (F17, F18).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec
import structlog

from rivermouth.engine.call import Call, Head, NotRecorded, Sink
from rivermouth.engine.deadlines import Deadlines, Limits
from rivermouth.engine.gate import Gate
from rivermouth.engine.interrupt import By, Stopped
from rivermouth.engine.ledger import Line
from rivermouth.engine.output import output
from rivermouth.engine.pump import Flow, pump
from rivermouth.engine.record import Recorder
from rivermouth.engine.transcript import Transcript
from rivermouth.ir.errors import ApiError, Kind, invalid
from rivermouth.ir.events import Usage
from rivermouth.ir.request import EmbedRequest, Request
from rivermouth.providers.provider import Lease, Provider, Upstream
from rivermouth.routing.attempts import Failed, GiveUp, next_step
from rivermouth.routing.catalog import Catalog
from rivermouth.routing.endpoint import Candidate, Endpoint, Plan, Policy
from rivermouth.routing.health import Health
from rivermouth.routing.needs import capabilities
from rivermouth.routing.policy import DEFAULT_ID, Needs, Refused, Selection, arranged, policy_id, select
from rivermouth.store.port import CallRecord, Checkpoint, Outcome, Status

log = structlog.get_logger()

CONFIRM_S: Final = 0.1
TELL_S: Final = 2.0
"""How long a client that does not read may keep its call from ending; then it is hung up on."""

End = tuple[Status, ApiError | None, By | None]
"""How a call ended; its error, where it failed; who cancelled it, where somebody did."""

Once = Callable[[Line], Awaitable[None]]
"""One attempt, to its end.  Raises the `ApiError` of an attempt that failed."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine takes from the config.

    own_idle: providers (the local engine) whose idle clock is their own, even if it is longer (R7).
    routing_key: the routing block's key; None sends none.  routing_always: False sends it where a policy held.
    policies: those that hold for every call.  records_text: what is said is kept, where nobody forbids it.
    """

    limits: Limits = Limits()
    provider_limits: Mapping[str, Limits] = {}
    own_idle: frozenset[str] = frozenset()
    retries: int = 2
    routing_key: str | None = "llmeu"
    routing_always: bool = True
    policies: tuple[Policy, ...] = ()
    records_text: bool = False

    def for_provider(self, name: str, surface: Limits | None = None) -> Limits:
        """The smaller of the surface's and the target's clocks."""
        own, target = surface or self.limits, self.provider_limits.get(name)
        if target is None:
            return own
        limits = own.within(target)
        return msgspec.structs.replace(limits, idle_s=target.idle_s) if name in self.own_idle else limits


class Engine:
    """Runs calls.  Holds no state of a call; `inflight` is every call that has begun and not ended.

    ended: told of each final record, once.  draw: numbers in [0, 1) for lots and jitter.
    gate: lets calls in, or not, when it is known who might serve them; None lets all in.
    """

    def __init__(
        self,
        *,
        catalog: Catalog,
        providers: Mapping[str, Provider],
        recorder: Recorder,
        settings: Settings,
        health: Health,
        ended: Callable[[CallRecord], None],
        draw: Callable[[], float] = random.random,
        gate: Gate | None = None,
    ) -> None:
        self._catalog = catalog
        self._providers = providers
        self._recorder = recorder
        self._settings = settings
        self._health = health
        self._ended = ended
        self._draw = draw
        self._gate = gate
        self._busy: Counter[str] = Counter()
        self._limits = {name: settings.for_provider(name) for name in providers}
        self._whole_limits = {name: limits.for_whole() for name, limits in self._limits.items()}
        self.inflight: set[Call] = set()

    async def generate(self, call: Call, sink: Sink) -> None:
        """Run a generation to its one end.  Raises nothing but the cancellation of its task by a stranger."""
        await self._run(call, sink, lambda line: self._generate_once(call, sink, line))

    async def embed(self, call: Call, sink: Sink) -> None:
        """Run an embedding to its one end."""
        await self._run(call, sink, lambda line: self._embed_once(call, sink, line))

    async def _run(self, call: Call, sink: Sink, once: Once) -> None:
        ledger = call.ledger
        call.transcript = Transcript() if call.keeps_text and self._settings.records_text else None
        self.inflight.add(call)
        end: End = (Status.CANCELLED, None, By.SHUTDOWN)
        try:
            call.opening = self._recorder.begin(ledger.opened)
            await self._attempts(call, once)
            end = (Status.COMPLETED, None, None)
        except (ApiError, Stopped) as cause:
            end = _end_of(call, cause)
            if end[0] is Status.COMPLETED:
                sink.hang_up()  # who has not taken the last of it asks for the answer
            elif (told := cause if isinstance(cause, ApiError) else _parting(cause.by)) is not None:
                await self._tell(call, sink, told)
        except NotRecorded as lost:
            end = (Status.FAILED, _kept(lost.error), None)
            await self._tell(call, sink, lost.error)
        except Exception as error:  # the pump's seam: whatever it is, the client and the record learn of it
            log.exception("call.crashed", call=call.id)
            failure = ApiError(Kind.INTERNAL, f"internal error ({type(error).__name__}); the log has it under this id")
            end = (Status.FAILED, failure, None)
            await self._tell(call, sink, failure)
        finally:
            final = ledger.closed(*end)
            try:
                if call.closing:
                    await asyncio.wait(call.closing)
            finally:
                self.inflight.discard(call)
                try:
                    if self._gate is not None:
                        self._gate.settle(call.reservation, final)
                finally:
                    self._recorder.close(final, call.text())
                    self._ended(final)

    async def _attempts(self, call: Call, once: Once) -> None:
        """Obey `next_step` until a candidate has answered.  Raises the error that is the call's."""
        if call.refused is not None:
            raise call.refused
        loop = asyncio.get_running_loop()
        candidates = await self._selected(call)
        call.sole = len(candidates) == 1
        failed: list[Failed] = []
        while True:
            now = loop.time()
            cooling = frozenset(c.endpoint.id for c in candidates if self._health.cooling(c.endpoint.id, now))
            left_s = self._total_s(call) if call.total_at is None else call.total_at - now
            step = next_step(candidates, failed, cooling, self._settings.retries, left_s, self._draw)
            if isinstance(step, GiveUp):
                raise _for_the_client(call, step.error)
            if step.wait_s:
                with call.interrupt:
                    await asyncio.sleep(step.wait_s)
            candidate = candidates[step.candidate]
            endpoint = candidate.endpoint
            if failed:
                with call.interrupt:
                    await call.stored()
            try:
                await self._attempt(call, candidate, once)
            except ApiError as error:
                self._health.failed(endpoint.id, error, loop.time())
                if call.committed:
                    raise _for_the_client(call, error) from None
                shorter = call.shorten(error) if call.shorten is not None else None
                if shorter is not None:
                    call.ask(shorter)
                    continue
                failed.append(Failed(step.candidate, _kept(error)))
                if not self._affords_another(call):
                    raise _for_the_client(call, error) from None
            else:
                self._health.succeeded(endpoint.id)
                return

    def _affords_another(self, call: Call) -> bool:
        """The money for another attempt is there, where failed ones had their price and somebody keeps a budget."""
        paid = call.ledger.cost()
        if self._gate is None or call.reservation is None or paid is None:
            return True
        return self._gate.again(call.reservation, paid)

    async def _selected(self, call: Call) -> tuple[Candidate, ...]:
        """The candidates that policy leaves; the record gets the reasons for all.  Nobody else is ever tried."""
        plan = call.plan
        if plan is None:
            with call.interrupt:
                plan = await self._catalog.plan(call.request.model)
        if call.long:
            weighs = (self._gate.weigh,) if self._gate is not None and self._gate.active else ()
            with call.interrupt:
                await asyncio.to_thread(call.asked.all, (capabilities, *weighs))
        try:
            selection = self.select(plan, call.policies, call.asked.needs)
            call.ledger.decided(selection.verdicts)
            if self._gate is not None and self._gate.active:
                call.reservation = self._gate.admit(call, selection)
                selection = call.reservation.selection
        except Refused as refused:
            call.ledger.decided(refused.verdicts)
            raise
        call.ledger.decided(selection.verdicts)
        return selection.candidates

    @property
    def always(self) -> tuple[Policy, ...]:
        """The policies that hold for every call."""
        return self._settings.policies

    def running(self, endpoint_id: str) -> int:
        """Attempts that are at that endpoint now."""
        return self._busy[endpoint_id]

    def select(self, plan: Plan, policies: Sequence[Policy], needed: Callable[[], Needs]) -> Selection:
        """What a call under these policies might try now.  Raises `Refused` with the reasons."""
        return select(
            plan,
            policies,
            self._settings.policies,
            needs=needed,
            busy=self._busy,
            draw=self._draw,
        )

    def arrange(self, plan: Plan) -> Sequence[Candidate]:
        """The candidates of the plan in the order in which its own rules would have them tried now."""
        return arranged(plan.candidates, plan, busy=self._busy, draw=self._draw)

    async def _attempt(self, call: Call, candidate: Candidate, once: Once) -> None:
        """One attempt and its line in the record."""
        endpoint = candidate.endpoint
        line = call.ledger.begin(endpoint, policy_id(candidate), call.asked.tokens)
        if call.transcript is not None:
            line.tally = call.transcript.heard(candidate)
        if call.keeper is not None and isinstance(call.request, Request):
            call.request = call.keeper.heard(candidate, call.request)
        self._busy[endpoint.id] += 1
        self._health.begun(endpoint.id, asyncio.get_running_loop().time())
        try:
            await once(line)
        except ApiError as error:
            error.provider = error.provider or endpoint.provider
            call.ledger.end(line, Outcome.FAILED, error)
            raise
        except (Stopped, asyncio.CancelledError):
            call.ledger.end(line, Outcome.CANCELLED)
            self._health.left(endpoint.id)
            raise
        finally:
            self._busy[endpoint.id] -= 1
            if not self._busy[endpoint.id]:
                del self._busy[endpoint.id]
        call.ledger.end(line, Outcome.COMPLETED)

    async def _generate_once(self, call: Call, sink: Sink, line: Line) -> None:
        request, endpoint = call.request, line.endpoint
        if not isinstance(request, Request):
            raise TypeError("generate takes a Request")
        provider = self._providers[endpoint.provider]
        same = provider.dialect == call.dialect.name and request.original is not None
        call.ledger.ignored = () if provider.dialect is not None else _unspoken(request)
        call.upstream = None
        lease: Lease | None = None
        upstream: Upstream | None = None
        deadlines: Deadlines | None = None
        complete = False
        try:
            with call.interrupt:
                lease = await provider.prepare(request, endpoint.model)
                whole = not request.stream and provider.dialect is not None
                deadlines = self._deadlines(call, sink, endpoint, whole=whole)
                upstream = await provider.open(
                    request, endpoint.model, lease, same_dialect=same, warn=call.ledger.ignore
                )
                call.upstream = upstream
                answer = call.answer()
                call.output = output(call.dialect, answer, stream=request.stream, same_dialect=same)
                flow = Flow(
                    call=call,
                    sink=sink,
                    line=line,
                    upstream=upstream,
                    output=call.output,
                    answer=answer,
                    deadlines=deadlines,
                    request=request,
                    routing_key=self._routing_key(line),
                    draw=self._draw,
                    running=self.inflight.__len__,
                    checkpoint=self._checkpoint,
                )
                await pump(flow)
            complete = True
        finally:
            if deadlines is not None:
                deadlines.stop()
            if lease is not None:
                lease.close()
            if upstream is not None:
                await (upstream.close() if complete else self._abandon(call, upstream))

    def _routing_key(self, line: Line) -> str | None:
        always = self._settings.routing_always or line.policy_id != DEFAULT_ID
        return self._settings.routing_key if always else None

    async def _abandon(self, call: Call, upstream: Upstream) -> None:
        """Stop the work of an attempt that did not complete.

        The client waits `CONFIRM_S` at most for a model that is slow to stop; the record waits until it has.
        """
        closing = asyncio.ensure_future(upstream.close())
        call.closing.add(closing)
        closing.add_done_callback(call.closing.discard)
        done, _ = await asyncio.wait({closing}, timeout=CONFIRM_S)
        for closed in done:
            closed.result()

    async def _embed_once(self, call: Call, sink: Sink, line: Line) -> None:
        request, endpoint, encode = call.request, line.endpoint, call.dialect.encode_embed
        if not isinstance(request, EmbedRequest) or encode is None:
            raise TypeError("embed takes an EmbedRequest and a dialect that has embeddings")
        provider = self._providers[endpoint.provider]
        call.ledger.ignored = () if provider.dialect is not None else request.unmodelled
        lease: Lease | None = None
        deadlines: Deadlines | None = None
        try:
            with call.interrupt:
                lease = await provider.prepare(request, endpoint.model)
                deadlines = self._deadlines(call, sink, endpoint, whole=True)
                reply = await provider.embed(request, endpoint.model, lease, warn=call.ledger.ignore)
                line.tally.usage = Usage(input_tokens=reply.input_tokens, output_tokens=0)
                answer = call.answer()
                answer.total_ns = call.ledger.since_ns()
                await call.commit()
                await sink.document(encode(reply, request, answer), head=call.head())
        finally:
            if deadlines is not None:
                deadlines.stop()
            if lease is not None:
                lease.close()

    def _checkpoint(self, mark: Checkpoint) -> None:
        self._recorder.checkpoint(
            mark.call_id, mark.output_tokens, mark.text_chars, estimated=mark.estimated, attempt=mark.attempt
        )

    def _deadlines(self, call: Call, sink: Sink, endpoint: Endpoint, *, whole: bool) -> Deadlines:
        """The clocks of one attempt; they start now, when the target has begun.

        whole: the answer comes in one piece, so only the total clock can tell slow from stuck.
        """
        now = asyncio.get_running_loop().time()
        limits = (self._whole_limits if whole else self._limits)[endpoint.provider]
        if call.limits is not None:
            limits = self._settings.for_provider(endpoint.provider, call.limits)
            limits = limits.for_whole() if whole else limits
        if call.total_at is None:
            call.total_at = now + self._total_s(call)
        data = call.dialect.keep_alive if call.streams else None
        quiet = self._keep_alive(call, sink, data) if data is not None else None
        return Deadlines(limits, min(call.total_at, now + limits.total_s), call.interrupt.expire, quiet)

    def _total_s(self, call: Call) -> float:
        return (call.limits or self._settings.limits).total_s

    def _keep_alive(self, call: Call, sink: Sink, data: bytes) -> Callable[[], None]:
        """A callback that shows life once; its task lives as long as the send takes."""
        running: set[asyncio.Task[None]] = set()

        async def send() -> None:
            try:
                await call.stored()
            except NotRecorded:
                return  # the call itself meets it, and says so
            if call in self.inflight:
                call.ledger.held_by_keepalive = call.ledger.held_by_keepalive or not sink.started
                # Who else may answer has another head, so with others left this one names no target.
                head = call.head() if call.sole else Head(call.ledger.ignored)
                await sink.send(data, last=False, head=head)

        def quiet() -> None:
            if not running:
                task = asyncio.get_running_loop().create_task(send())
                running.add(task)
                task.add_done_callback(running.discard)

        return quiet

    async def _tell(self, call: Call, sink: Sink, error: ApiError) -> None:
        """The client learns of a failure: an HTTP error before the first byte, the in-stream error after it (F14)."""
        try:
            await call.stored()
        except NotRecorded as lost:
            log.error("call.not_recorded", call=call.id, reason=str(lost))
        try:
            async with asyncio.timeout(TELL_S):
                if sink.started:
                    await sink.send(call.failure(error), last=True, head=call.head())
                else:
                    await sink.fail(error)
        except TimeoutError:
            log.warning("call.untold", call=call.id)
            sink.hang_up()


def _kept(error: ApiError) -> ApiError:
    """The error as a value.  Its traceback leads to the frames that keep it, and these would keep all of the call."""
    return error.with_traceback(None)


def _end_of(call: Call, cause: ApiError | Stopped) -> End:
    """The end of a call that has that cause.  One whose answer is whole and kept has ended as that has."""
    if call.keeper is not None and call.keeper.whole:
        return (Status.COMPLETED, None, None)
    if isinstance(cause, ApiError):
        return (Status.FAILED, _kept(cause), None)
    return (Status.CANCELLED, None, cause.by)


def _unspoken(request: Request) -> tuple[str, ...]:
    """What the client's dialect asked for and a target without a dialect cannot hear (R30).  Raises `ApiError`."""
    if request.untranslatable:
        raise invalid("this needs an upstream that speaks the client's own dialect", request.untranslatable[0])
    return request.unmodelled


def _parting(by: By) -> ApiError | None:
    """What a client is told whose call was cancelled; None where it is its own doing."""
    if by is By.SHUTDOWN:
        return ApiError(Kind.OVERLOADED, "the server is shutting down", retry_after_s=5)
    if by is By.REQUEST:
        return ApiError(Kind.CANCELLED, "the call was cancelled by request", code="call_cancelled")
    return None


PROVIDER_REFUSED: Final = {
    Kind.AUTHENTICATION: "did not accept this server's key",
    Kind.PERMISSION: "does not allow this server's key to do that",
}


def _for_the_client(call: Call, error: ApiError) -> ApiError:
    """What the client is told; where that is less than is known, the log has why."""
    told = as_the_client_sees_it(error)
    if told is not error:
        reason = error.own_words
        log.warning("call.provider_refused", call=call.id, provider=error.provider, kind=error.kind, reason=reason)
    return told


def as_the_client_sees_it(error: ApiError) -> ApiError:
    """An upstream that refuses *our* key is no fault of the client's key; nor is it that we have none."""
    if error.provider is None:
        return error
    if error.code == "no_credentials" and not error.foreign:
        text = f"this server has no AWS credentials for {error.provider}; its log says why"
        return ApiError(error.kind, text, code=error.code, provider=error.provider)
    words = PROVIDER_REFUSED.get(error.kind)
    if words is None:
        return error
    return ApiError(Kind.UPSTREAM, f"{error.provider} {words}", code="provider_authentication", provider=error.provider)
