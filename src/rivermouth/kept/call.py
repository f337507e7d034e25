"""One call whose answer is kept, from its first attempt to the row in the store.

    heard     each candidate is asked whether what it says may be kept; once one may not, nothing is
    placed    the first candidate is asked, so the call was let in; or it was refused.  Only then does a call in the
              background begin for its client; what follows waits until it is `ready`: stored, its first events said
    sink      what the client gets passes through; the last bytes wait until the answer is stored, so that whoever has
              them can ask for it
    settled   there is an answer with an end, which does not change any more

What is told to the client stays what it is: a store that fails loses the answer, and the log says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import structlog

from rivermouth.dialects.dialect import Ended, Keeps, Turn
from rivermouth.engine.call import Call, Head, NotRecorded, Sink
from rivermouth.engine.interrupt import By
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.request import Keeping, Request
from rivermouth.kept.terms import longest_s, until_ns
from rivermouth.routing.endpoint import Candidate
from rivermouth.store.kept.port import KeptAnswer, KeptStore, Owner
from rivermouth.store.port import CallRecord, Status, StoreError

log: Final = structlog.get_logger()

Run = Callable[[Call, Sink], Awaitable[None]]
"""The engine's way to the end of a call."""
BY_CLIENT: Final = frozenset({By.CLIENT, By.REQUEST})
"""Whoever asked for the answer does not want it any more; every other end is a failure."""


class KeptCall:
    """Implements the engine's `Keeper`.  answer: as it is now, for whoever asks.

    own: what is new in its request.  longest_s: how long it may be kept, as far as that is known.
    """

    def __init__(
        self,
        store: KeptStore,
        call: Call,
        keeps: Keeps,
        *,
        owner: Owner,
        own: bytes,
        longest_s: float,
        clock_ns: Callable[[], int],
    ) -> None:
        self.id: Final = keeps.answer_id(call.id)
        self.owner: Final = owner
        self.call: Final = call
        self.keeps: Final = keeps
        wish = call.request.kept if isinstance(call.request, Request) else None
        self.wish: Final = wish or Keeping()
        self.wanted = True
        self.settled: Final = asyncio.Event()
        self.placed: Final = asyncio.Event()
        self.ready: Final = asyncio.Event()
        self.refused: ApiError | None = None
        self._through: KeptSink | None = None
        self._store = store
        self._own = own
        self._longest_s = longest_s
        self._clock_ns = clock_ns
        self._ended: Ended | None = None
        self._put = False

    @property
    def background(self) -> bool:
        return self.wish.background

    @property
    def ended(self) -> Ended | None:
        return self._ended

    @property
    def whole(self) -> bool:
        return self._ended is not None and not self._ended.failed

    @property
    def kept(self) -> bool:
        """Nobody has forbidden it, and nobody has deleted it."""
        return self.wanted and self._longest_s > 0

    @property
    def answer(self) -> bytes:
        return self._ended.answer if self._ended is not None else self.keeps.begun(self.call.answer()).answer

    @property
    def turn(self) -> Turn:
        return Turn(self.call.id, self._own, None)

    def heard(self, candidate: Candidate, request: Request) -> Request:
        self._longest_s = min(self._longest_s, longest_s(candidate, self._longest_s))
        self.placed.set()
        if self.background and self._through is not None:
            self._through.started = True
        return msgspec.structs.replace(request, kept=msgspec.structs.replace(self.wish, store=self.kept))

    def cancel(self) -> None:
        """Whoever asked for it wants it to end."""
        self.call.interrupt.cancel(By.REQUEST)

    def forget(self) -> None:
        """It has been deleted, or nobody will learn of it."""
        self.wanted = False

    async def begin(self) -> bytes:
        """Returns when the call was let in; the first events of its stream, which is in the store now.

        The call's record is there before it.  Raises `ApiError` where it was not let in, or cannot be stored.
        """
        await self.placed.wait()
        if self.refused is not None:
            raise self.refused
        begun = self.keeps.begun(self.call.answer())
        try:
            await self.call.stored()
        except NotRecorded as lost:
            self.forget()
            raise lost.error from None
        try:
            self._put = await self._store.put(self._row(begun.answer, 1, ended=False))
        except StoreError as error:
            self.forget()
            log.error("kept.unstored", call=self.call.id, reason=str(error))
            raise ApiError(Kind.OVERLOADED, "the response cannot be stored now", retry_after_s=5) from None
        return begun.stream

    async def run(self, run: Run, sink: Sink) -> None:
        """The call to its end, and to that of its answer."""
        through = self._through = KeptSink(sink, self)
        try:
            await run(self.call, through)
        finally:
            if not self.placed.is_set():
                self.refuse(ApiError(Kind.INTERNAL, "the call did not begin"))
            if (
                self._ended is None
                and self.refused is None
                and (self.background or (self.call.streams and through.told))
            ):
                await self.end(self._cut_off())
            self.settled.set()

    def refuse(self, error: ApiError) -> None:
        """It was not let in: there is no response."""
        if not self.placed.is_set():
            self.refused = error
            self.placed.set()

    async def end(self, ended: Ended) -> None:
        """The answer is what it will always be."""
        if self._ended is not None:
            return
        self._ended = ended
        try:
            if self.kept:
                row, call = self._row(ended.answer, ended.number, ended=True), self._closing(ended)
                await (self._store.finish(row, call) if self._put else self._store.put(row, call))
        except StoreError as error:
            log.error("kept.unstored", call=self.call.id, reason=str(error))
        finally:
            self.settled.set()

    def last(self, data: bytes) -> tuple[bytes, Ended | None]:
        """The last bytes of a stream, as they are to be sent, and what they say."""
        if self.call.interrupt.by in BY_CLIENT:
            data = self.keeps.cancelled(data)
        return data, self.keeps.ended(data)

    def _cut_off(self) -> Ended:
        """Nobody was told of an end."""
        by = self.call.interrupt.by
        error = ApiError(Kind.CANCELLED if by is not None else Kind.INTERNAL, "the response was not finished")
        try:
            _, ended = self.last(self.call.failure(error))
        except ApiError:
            ended = None
        return ended or Ended(self.keeps.interrupted(self.keeps.begun(self.call.answer()).answer), 1, failed=True)

    def _closing(self, ended: Ended) -> CallRecord | None:
        """The call's record as that answer has it end; None where its failure is not known here."""
        by = self.call.interrupt.by
        if not ended.failed:
            return self.call.ledger.closing(Status.COMPLETED)
        return self.call.ledger.closing(Status.CANCELLED, by) if by in BY_CLIENT else None

    def _row(self, answer: bytes, last: int, *, ended: bool) -> KeptAnswer:
        opened = self.call.ledger.opened
        return KeptAnswer(
            id=self.id,
            call_id=self.call.id,
            dialect=self.call.dialect.name,
            owner=self.owner,
            created_ns=opened.started_ns,
            expires_ns=until_ns(opened.started_ns, self._longest_s),
            input=self._own,
            answer=answer,
            previous=self.wish.previous,
            background=self.background,
            ended_ns=self._clock_ns() if ended else None,
            last=last,
        )


class KeptSink:
    """Implements the engine's `Sink` before that of the client.

    Of a call in the background the first events have been said already, and are not said again.
    """

    def __init__(self, sink: Sink, kept: KeptCall) -> None:
        self._sink = sink
        self._kept = kept
        self.started = False
        self.told = False  # some of the stream
        self._early: bytes | None = b"" if kept.background else None  # what came before its first news
        self.write = sink.write if self._early is None else self._wait
        self.hang_up = sink.hang_up

    async def send(self, data: bytes, *, last: bool, head: Head) -> None:
        if self._kept.background:
            await self._kept.ready.wait()
        if self._early is not None and data != self._kept.call.dialect.keep_alive:
            news = self._kept.keeps.headless(self._early + data)
            if news is None and not last:
                self._early += data
                return
            self._early, data, self.write = None, news or b"", self._sink.write
        ended = None
        if last:
            data, ended = self._kept.last(data)
        if ended is not None:
            await self._end(ended)
        self.started = self.told = True
        await self._sink.send(data, last=last, head=head)

    async def document(self, body: bytes, *, head: Head) -> None:
        self.started = True
        await self._end(Ended(body, 0))
        await self._sink.document(body, head=head)

    async def fail(self, error: ApiError) -> None:
        self._kept.refuse(error)
        self.started = True
        await self._sink.fail(error)

    async def _end(self, ended: Ended) -> None:
        """A cancel that comes while it is stored comes too late: the call ends as its answer says."""
        with self._kept.call.interrupt.held():
            await self._kept.end(ended)

    def _wait(self, data: bytes) -> bool:
        """Not before the first news: `send` looks for them."""
        return False
