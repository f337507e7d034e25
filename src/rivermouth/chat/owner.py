"""The writer of one turn: one engine call, one log, one end.

It was made by a claim and holds the turn's generation.  Every write it makes says so, to the log by its id and to the
store by its guard; when either refuses, another writer has come, and it drops the upstream and ends without a word.
The order of its steps is the machine's.

Between the engine and the log stands one buffer.  An entry is written at once when the last one is `coalesce_s` old,
else within that time or at `coalesce_chars`; a log that is slow makes entries larger, a full buffer makes the engine
wait, and that is not the upstream's idleness.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
import structlog

from rivermouth.chat import failures, frames, moves
from rivermouth.chat.draft import Draft, digest, visible
from rivermouth.chat.entries import Entries
from rivermouth.chat.inside import CHAT, ROUTE, SURFACE, Inside
from rivermouth.chat.machine import OWNING, State, Step
from rivermouth.chat.moves import End, Fenced
from rivermouth.chat.ports import CLAIMS, Ports
from rivermouth.chat.prompt import Prompt, exchanges
from rivermouth.engine.call import Call
from rivermouth.engine.interrupt import By
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import ArgsDelta, Event, PartStart
from rivermouth.log.port import FrameId
from rivermouth.routing.endpoint import Endpoint, Plan
from rivermouth.store.chats.port import Chat, Turn
from rivermouth.store.port import CallRecord, Status, StoreError
from rivermouth.wire import json

log = structlog.get_logger()

ENTRY_CHARS: Final = 8 * 1024

_BY: Final[dict[State, By]] = {State.STOPPED: By.STOP, State.SUPERSEDED: By.SUPERSEDE}


class Owner:
    """`await owner.run()`; meanwhile `stop`, `fence` and `shut_down` may be called from anywhere on the loop."""

    def __init__(self, turn: Turn, chat: Chat, ports: Ports) -> None:
        self.turn = turn
        self.chat = chat
        self._ports = ports
        self._settings = ports.settings
        self._wake = asyncio.Event()
        self._inside = Inside(ports.settings.buffer_chars, self._wake.set)
        self._draft = Draft()
        self._entries = Entries(turn, chat, ports, self._snapshot)
        self._call: Call | None = None
        self._prompt: Prompt | None = None
        self._engine: asyncio.Task[None] | None = None
        self._reason: State | None = None
        self._fenced = False
        self._failure: ApiError | None = None
        self._final: End | None = None
        self.begun_s = self._checked_s = ports.clock.now_s()
        self._chosen = False
        self._calls: dict[int, str] = {}
        self._steps: dict[Step, Callable[[], Awaitable[None]]] = {
            Step.OPEN: self._open,
            Step.CALL: self._begin,
            Step.STREAM: self._stream,
            Step.COMMIT: self._commit,
            Step.TELL: self._tell,
        }

    async def run(self) -> None:
        """From the claim to the end.  Raises `StoreError` when the end could not be written: the reaper writes it."""
        try:
            for step in OWNING[1:]:
                await self._steps[step]()
        except Fenced:
            self._ports.metrics.fenced()
            log.info("turn.fenced", turn=self.turn.id, generation=self.turn.generation)
        finally:
            if self._engine is not None and not self._engine.done():
                self._interrupt(By.TAKEOVER)
            self._entries.ring()

    def stop(self, reason: State) -> None:
        """The turn's row says that it is to stop."""
        if self._reason is None:
            self._reason = reason
            self._interrupt(_BY[reason])

    def fence(self) -> None:
        """This process may not write any more."""
        self._fenced = True
        self._interrupt(By.TAKEOVER)

    def shut_down(self) -> None:
        """The server stops: end with what there is."""
        self._interrupt(By.SHUTDOWN)

    @property
    def engine(self) -> asyncio.Task[None] | None:
        """The engine's part, which may outlive the turn until the upstream has confirmed that it stopped."""
        return self._engine

    # -- the steps

    async def _open(self) -> None:
        turn = self.turn
        opened = frames.Opened(turn.id, turn.assistant_message_id or 0, turn.user_message_id, turn.created_ns)
        await self._entries.append(opened, opening=True)
        await self._entries.trim(FrameId(turn.generation - 2, 0))

    async def _begin(self) -> None:
        """The engine call, unless the turn is to stop before it, or nobody can be asked."""
        try:
            plan, prompt = await self._planned()
        except ApiError as error:
            self._failure = error
            return
        call_id = self._ports.new_id()
        if not await self._store(lambda tx: moves.call(tx, self.turn, call_id)):
            return
        self._prompt = prompt
        self._call = call = self._made(call_id, plan, prompt)
        if self._reason is not None or self._fenced:
            return
        self._engine = asyncio.create_task(self._ports.engine.generate(call, self._inside))
        self._engine.add_done_callback(lambda _: self._inside.finish())

    async def _planned(self) -> tuple[Plan, Prompt]:
        turns, messages, saved = await self._ports.store.read(
            lambda tx: (
                tx.turns(self.chat.id),
                tx.messages(self.chat.id),
                tx.preference(self.chat.owner, "model"),
            )
        )
        name = self.turn.asked or saved or "auto"
        plan = await self._ports.chooser.plan(name)
        talk = exchanges(turns, {message.id: message for message in messages}, self.turn)
        prompt = Prompt(talk, (self._settings.system_prompt, self.chat.instructions), plan.model)
        window = await self._ports.chooser.window(plan)
        if window is not None:
            prompt.fit(window)
        return plan, prompt

    def _made(self, call_id: str, plan: Plan, prompt: Prompt) -> Call:
        opened = CallRecord(
            id=call_id,
            started_ns=self._ports.clock.wall_ns(),
            operation=ROUTE.operation.value,
            dialect=CHAT.name,
            surface=SURFACE.prefix,
            model_asked=plan.model,
            stream=True,
            client_request_id=self.turn.request_id,
        )
        return Call(
            opened=opened,
            dialect=CHAT,
            surface=SURFACE,
            route=ROUTE,
            request=prompt.request(),
            clock_ns=self._ports.clock.wall_ns,
            plan=plan,
            limits=self._settings.limits,
            shorten=prompt.shorten,
        )

    async def _stream(self) -> None:
        if self._engine is None:
            return
        while True:
            await self._something()
            self._refuse_if_fenced()
            if self._inside.pending:
                await self._say()
            if self._entries.unkept and self._ports.clock.now_s() >= self._checkpoint_at():
                await self._checkpoint()
            over = self._inside.finished or self._reason is not None
            if over and not self._inside.pending:
                break
        if self._reason is not None or not self._inside.finished:
            await self._quiet()

    async def _commit(self) -> None:
        """T5, with the warning before it that a broken answer gets."""
        self._refuse_if_fenced()
        state, error = self._outcome()
        if state is State.FAILED and error is not None and self._draft.chars:
            await self._warn(error)
        self._entries.leave_an_id_unused()
        end = End(
            state=state,
            row=self._draft.row(),
            end=self._entries.last.next(),
            error=json.encode(failures.told(error)).decode() if error is not None else None,
            context_from=self._prompt.context_from if self._prompt is not None else None,
            **self._served(),
        )
        self._draft = Draft()  # it is in `end`, and can be megabytes
        state = await self._persist(end)
        self._final = msgspec.structs.replace(end, state=state)

    async def _tell(self) -> None:
        final = self._final
        if final is None:
            raise TypeError("the end is told after it was committed")
        text: str = final.row["text"]
        told = frames.Ended(
            turn=self.turn.id,
            message_id=self.turn.assistant_message_id,
            state=final.state.value,
            provider=final.provider,
            error=json.convert(json.decode(final.error.encode()), dict[str, str])
            if final.error is not None and final.state in (State.FAILED, State.INTERRUPTED)
            else None,
            text_chars=len(text),
            digest=digest(text),
        )
        await self._entries.end(told)
        self._ports.doorbell.ring(CLAIMS)
        self._ports.metrics.ended(final.state.value)

    # -- while it streams

    async def _something(self) -> None:
        """Returns when there is something to write, and it is time to; or an end; or a checkpoint is due."""
        inside, clock = self._inside, self._ports.clock
        inside.wake_at = 0
        while not (inside.pending or inside.finished or self._reason is not None or self._fenced):
            left_s = self._checkpoint_at() - clock.now_s() if self._entries.unkept else self._settings.look_s
            if left_s <= 0:
                return
            await self._woken(left_s)
        inside.wake_at = self._settings.coalesce_chars
        while not (inside.finished or self._reason is not None or self._fenced):
            left_s = self._entries.written_s + self._settings.coalesce_s - clock.now_s()
            if left_s <= 0 or inside.chars >= inside.wake_at:
                return
            await self._woken(left_s)

    async def _woken(self, limit_s: float) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout(limit_s):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _say(self) -> None:
        events = self._inside.take(ENTRY_CHARS)
        if not self._chosen:
            await self._choose()
        said = frames.Said(self._draft.chars, frames.pack_all(events), self._tool_ids(events))
        self._draft.say(events)
        if said.events:
            await self._entries.append(said)
        if self._draft.size > self._settings.turn_chars and self._failure is None:
            self._failure = failures.too_long(self._settings.turn_chars)
            self._interrupt(By.STOP)

    def _tool_ids(self, events: list[Event]) -> dict[str, str]:
        """Of the calls that these are pieces of: a reader that came late has not seen their beginning."""
        for event in events:
            if isinstance(event, PartStart) and event.id is not None:
                self._calls[event.part] = event.id
        parts = {event.part for event in events if isinstance(event, ArgsDelta | PartStart)}
        return {str(part): self._calls[part] for part in parts if part in self._calls}

    async def _choose(self) -> None:
        """Whose answer it is, before its first piece."""
        self._chosen = True
        serving = self._serving
        if serving is not None and self._call is not None:
            await self._entries.append(frames.Chosen(serving.provider, serving.model, self._call.id))

    @property
    def _serving(self) -> Endpoint | None:
        return self._call.ledger.serving if self._call is not None and self._chosen else None

    def _snapshot(self) -> bytes:
        """All that was said so far, as one frame."""
        parts = self._draft.parts()
        raw = msgspec.Raw(json.encode(parts))
        message_id, serving = self.turn.assistant_message_id or 0, self._serving
        provider = serving.provider if serving is not None else None
        return frames.encode(frames.Snapshot(self.turn.id, message_id, raw, visible(parts), provider))

    async def _warn(self, error: ApiError) -> None:
        for text in (failures.BEFORE_WARNING, failures.warning(error)):
            warned = frames.Warned(self._draft.chars, text)
            self._draft.warn(text)
            await self._entries.append(warned)

    def _checkpoint_at(self) -> float:
        """Large answers are kept less often: to write one takes longer."""
        return self._checked_s + max(self._settings.checkpoint_s, self._draft.size / 1e6)

    async def _checkpoint(self) -> None:
        self._checked_s = self._ports.clock.now_s()
        self._entries.leave_an_id_unused()
        message_id, row, last = self.turn.assistant_message_id or 0, self._draft.row(), self._entries.last
        serving = self._serving
        provider = serving.provider if serving is not None else None
        try:
            reason = await self._store(lambda tx: moves.checkpoint(tx, self.turn, message_id, row, last, provider))
        except StoreError as error:
            if not error.passing:
                raise
            log.warning("turn.checkpoint_late", turn=self.turn.id, reason=str(error))
            return  # the next one keeps more; a store that stays away stops this process's heart, and then this turn
        self._entries.unkept = False
        if reason is not None:
            self.stop(State(reason))

    async def _quiet(self) -> None:
        """The upstream is told to stop; its confirmation is waited for a little."""
        self._inside.hang_up()
        if self._engine is not None and not self._engine.done():
            await asyncio.wait({self._engine}, timeout=self._settings.close_s)

    def _interrupt(self, by: By) -> None:
        if self._call is not None:
            self._call.interrupt.cancel(by)
        if by is not By.SHUTDOWN:
            self._inside.hang_up()
        self._wake.set()

    def _refuse_if_fenced(self) -> None:
        if self._fenced:
            raise Fenced

    # -- the end

    def _outcome(self) -> tuple[State, ApiError | None]:
        if self._failure is not None:
            return State.FAILED, self._failure
        if self._reason is not None:
            return self._reason, None
        if self._call is not None and self._call.interrupt.by is By.SHUTDOWN:
            return State.INTERRUPTED, ApiError(Kind.OVERLOADED, failures.UNAVAILABLE_ERROR["message"])
        if self._inside.failure is not None:
            return State.FAILED, self._inside.failure
        if self._inside.complete:
            return State.COMPLETED, None
        return State.FAILED, ApiError(Kind.INTERNAL, "the answer ended without an end")

    def _served(self) -> dict[str, Any]:
        if self._call is None:
            return {}
        record = self._call.ledger.closed(Status.OPEN)
        used = {
            "input_tokens": record.input_tokens,
            "output_tokens": record.output_tokens,
            "estimated": record.estimated,
            "cost": record.price_amount,
            "currency": record.price_currency,
        }
        usage = json.encode(used).decode() if record.output_tokens is not None else None
        return {"provider": record.provider, "model": record.model_used, "usage": usage}

    async def _persist(self, end: End) -> State:
        """Committed, or fenced.  A store that cannot write now is asked again until this process would be fenced."""
        until_s = self._ports.clock.now_s() + self._settings.fence_s
        while True:
            try:
                return State(await self._store(lambda tx: moves.finish(tx, self.turn, end)))
            except StoreError as error:
                if not error.passing or self._ports.clock.now_s() >= until_s:
                    raise
                log.warning("turn.delayed", turn=self.turn.id, reason=str(error))
            await self._ports.clock.sleep(self._settings.look_s / 4)

    async def _store(self, work: Callable[[Any], Any]) -> Any:
        return await self._ports.store.run(work)
