"""Ends a turn whose writer died, is late, or does not stop: T7, fence, fold, T8, the end, in the machine's order.

It can die itself between any two of these; then the turn is recovering without a beating worker, and somebody begins
again.  Nothing is asked of a model: what was said is kept, and a new try is a new turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from rivermouth.chat import failures, frames, moves
from rivermouth.chat.draft import Draft, decode_parts, digest
from rivermouth.chat.machine import RECOVERY, State, Step
from rivermouth.chat.moves import End
from rivermouth.chat.ports import CLAIMS, Ports, chat_channel, slot_key
from rivermouth.ir.errors import WireError
from rivermouth.log.port import Entry, FrameId, Landed, LogError
from rivermouth.store.chats.port import Message, Turn, Tx
from rivermouth.wire import json

log = structlog.get_logger()

PAGE: Final = 1_000


class Recovery:
    """One takeover.  `await recovery.run()`: true when this ended the turn."""

    def __init__(self, turn_id: int, boot_id: str, ports: Ports) -> None:
        self._turn_id = turn_id
        self._boot_id = boot_id
        self._ports = ports
        self._key = ""
        self._turn: Turn | None = None
        self._row: Message | None = None
        self._draft = Draft()
        self._end: End | None = None
        self._steps: dict[Step, Callable[[], Awaitable[bool]]] = {
            Step.TAKE: self._take,
            Step.FENCE: self._fence,
            Step.FOLD: self._fold,
            Step.COMMIT: self._commit,
            Step.TELL: self._tell,
        }

    async def run(self) -> bool:
        for step in RECOVERY:
            if not await self._steps[step]():
                return False
        return True

    async def _take(self) -> bool:
        def take(tx: Tx) -> tuple[Turn, Message | None, str] | None:
            turn = moves.take_over(tx, self._turn_id, self._boot_id)
            chat = tx.chat(turn.chat_id) if turn is not None else None
            if turn is None or chat is None:
                return None
            return turn, tx.message(turn.assistant_message_id or 0), chat.owner

        taken = await self._ports.store.run(take)
        if taken is None:
            return False
        self._turn, self._row, owner = taken
        self._key = slot_key(owner, self._turn.chat_id)
        log.info("turn.taken_over", turn=self._turn.id, generation=self._turn.generation)
        return True

    async def _fence(self) -> bool:
        turn = self._taken()
        fence = frames.Fenced(turn.id, turn.assistant_message_id or 0)
        try:
            landed = await self._ports.log.append(
                self._key, FrameId(turn.generation, 0), frames.encode(fence), opening=True
            )
        except LogError:
            return True  # nobody else can write it either, and its old writer is shut out by the store
        return landed is Landed.OK

    async def _fold(self) -> bool:
        """The longer of what the row has and what the log adds to it."""
        if self._row is not None:
            try:
                self._draft = Draft(decode_parts(self._row.parts))
            except WireError as error:  # nobody can read it, so there is nothing to be kept
                log.error("turn.unreadable", turn=self._turn_id, reason=str(error))
        try:
            await self._fold_log()
        except LogError:
            log.warning("log.unreachable", chat=self._key)
        return True

    async def _fold_log(self) -> None:
        turn = self._taken()
        folded_to = FrameId.parse(self._row.folded_to) if self._row is not None else None
        folding = Folding(turn.id, folded_to, self._draft)
        after = folding.start
        while True:
            page = await self._ports.log.read(self._key, after, PAGE)
            for entry in page.entries:
                folding.feed(entry)
            if len(page.entries) < PAGE:
                return
            after = page.entries[-1].id

    async def _commit(self) -> bool:
        turn = self._taken()
        state, error = self._outcome(turn)
        self._end = End(
            state=state,
            row=self._draft.row(),
            end=FrameId(turn.generation, 1),
            error=json.encode(error).decode() if error is not None else None,
        )
        end = self._end
        return await self._ports.store.run(lambda tx: moves.finalise(tx, turn, end))

    async def _tell(self) -> bool:
        turn, end = self._taken(), self._end
        if end is None:
            raise TypeError("the end is told after it was committed")
        text: str = end.row["text"]
        told = frames.Ended(
            turn=turn.id,
            message_id=turn.assistant_message_id,
            state=end.state.value,
            provider=turn.provider,
            error=json.convert(json.decode(end.error.encode()), dict[str, str]) if end.error is not None else None,
            text_chars=len(text),
            digest=digest(text),
        )
        try:
            await self._ports.log.append(self._key, end.end, frames.encode(told))
        except LogError:
            log.warning("log.unreachable", chat=self._key)
        self._ports.doorbell.ring(chat_channel(turn.chat_id))
        self._ports.doorbell.ring(CLAIMS)
        self._ports.metrics.reaped()
        self._ports.metrics.ended(end.state.value)
        return True

    def _outcome(self, turn: Turn) -> tuple[State, dict[str, str] | None]:
        if turn.reason is not None:
            return State(turn.reason), None
        if turn.hard_deadline_ns is not None and turn.hard_deadline_ns < self._ports.clock.wall_ns():
            return State.FAILED, failures.DEADLINE_ERROR
        return State.INTERRUPTED, failures.UNAVAILABLE_ERROR

    def _taken(self) -> Turn:
        if self._turn is None:
            raise TypeError("a turn is taken over first")
        return self._turn


class Folding:
    """Adds to a draft what the log has beyond it, as long as nothing is missing in between.

    folded_to: the frame that the draft includes; None: it includes none.
    """

    def __init__(self, turn_id: int, folded_to: FrameId | None, draft: Draft) -> None:
        self._turn_id = turn_id
        self._draft = draft
        self._next: FrameId | None = folded_to.next() if folded_to is not None else None
        self.start = folded_to if folded_to is not None else FrameId(0, 0)

    def feed(self, entry: Entry) -> None:
        frame = frames.decode(entry.body)
        match frame:
            case frames.Opened() | frames.Snapshot() if frame.turn == self._turn_id:
                self._draft.apply(frame)
                self._next = entry.id.next()
            case frames.Said() | frames.Warned() | frames.Chosen() if entry.id == self._next:
                self._draft.apply(frame)
                self._next = entry.id.next()
            case _:
                pass
