"""Writing down what happened: one record for each call, however it ended.

`Recorder` stands between the event loop and a blocking `CallStore`.  One thread owns all writes.  It takes everything
that waits, writes it as one transaction, and takes again: so all calls that start during a flush share the next one
(group commit), and a busy server pays for few transactions.

`open` resolves when the row is committed, and only then may the first byte of the answer go out; it is the only
method that waits.  `begin` does the same beside the question to the upstream: on a busy server its row waits for those
of other calls, but no longer than until somebody needs it.  `checkpoint` and `close` return at once.  The queue is
bounded: when `limit` rows wait, `open` waits for room, so no new call begins; `close` never drops and never waits,
since there is at most one for each call that was let in, and checkpoints of one call replace each other.

When the store refuses for a passing reason (locked, full), calls that want to open fail and ends are kept and tried
again.  When a row itself is refused, the others of its batch are written without it, and an end is written bare.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Final, Self

import msgspec
import structlog

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.secrets import Secret, redact
from rivermouth.store.port import (
    LONGEST_MESSAGE,
    AttemptRecord,
    CallFilter,
    CallRecord,
    CallStore,
    CallText,
    Checkpoint,
    Decision,
    Outcome,
    Quoted,
    Said,
    Status,
    StoreError,
    UsageRow,
)

__all__ = [
    "AttemptRecord",
    "CallFilter",
    "CallRecord",
    "CallStore",
    "Checkpoint",
    "Decision",
    "Outcome",
    "Recorder",
    "RecorderStatistics",
    "Status",
    "StoreError",
    "UsageRow",
    "clean",
]

OPENS_APART_S: Final = 0.005
"""How long after a transaction an open row waits for company, if nobody needs it sooner: an upstream's first word takes
longer, and a transaction for each call of a busy server would be as dear as the calls."""
ENDS_LINGER_S: Final = 0.02
"""How long an end may wait for company.  Waking the writer's thread is dearer than writing a row."""
MARKS_LINGER_S: Final = 0.1
"""The same for a checkpoint.  With a thousand streams there is always one: each transaction writes all the pages it has
touched, and SQLite copies them out of its log later, while the event loop waits for the core."""
TEXTS_CAP: Final = 512
"""Texts that may wait to be written; at their longest they are 64 Mi characters."""
BARE_MESSAGE: Final = "the record of this call could not be written whole"

_log: Final = structlog.stdlib.get_logger()


def clean(record: CallRecord, secrets: tuple[Secret, ...] = ()) -> CallRecord:
    """The record as it may be kept: messages without secrets and at most `LONGEST_MESSAGE` characters."""
    if record.message is not None:
        record = msgspec.structs.replace(record, message=_kept(record.message, secrets))
    if any(a.message is not None for a in record.attempts):
        attempts = tuple(
            a if a.message is None else msgspec.structs.replace(a, message=_kept(a.message, secrets))
            for a in record.attempts
        )
        record = msgspec.structs.replace(record, attempts=attempts)
    return record


def _kept(message: str, secrets: tuple[Secret, ...]) -> str:
    text = redact(message, secrets)
    return text if len(text) <= LONGEST_MESSAGE else text[: LONGEST_MESSAGE - 1] + "…"


def _clean_text(text: CallText, secrets: tuple[Secret, ...]) -> CallText:
    prompt = tuple(Said(said.role, redact(said.text, secrets)) for said in text.prompt)
    errors = tuple(Quoted(one.attempt, _kept(one.message, secrets)) for one in text.errors)
    return msgspec.structs.replace(text, prompt=prompt, answer=redact(text.answer, secrets), errors=errors)


def _bare(record: CallRecord) -> CallRecord:
    """The end of a call with nothing in it that a store could refuse."""
    return CallRecord(
        id=record.id,
        started_ns=record.started_ns,
        operation=record.operation,
        dialect=record.dialect,
        surface=record.surface,
        model_asked="",
        status=record.status,
        kind=record.kind,
        message=BARE_MESSAGE,
        at_least=True,
    )


class RecorderStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that wait now, and sums since the start.  `rejected`: rows the store refused for themselves.

    texts_dropped: texts of calls that were not kept because too many waited.
    """

    opens: int
    marks: int
    closes: int
    writing: int
    limit: int
    flushes: int
    rows: int
    largest_flush: int
    retries: int
    rejected: int
    texts_dropped: int


class Opening:
    """The open row of one call on its way into the store."""

    __slots__ = ("_committed", "_hurry")

    def __init__(self, committed: asyncio.Future[None], hurry: Callable[[], None]) -> None:
        self._committed = committed
        self._hurry = hurry
        committed.add_done_callback(_seen)

    async def committed(self) -> None:
        """Returns when the row is there.  Waiting again costs nothing, and a cancelled wait does not undo it.

        Raises `ApiError` when it cannot be written.
        """
        if not self._committed.done():
            self._hurry()
            await asyncio.shield(self._committed)
        self._committed.result()


def _nothing() -> None:
    """It is under way already."""


def _seen(committed: asyncio.Future[None]) -> None:
    """A call that ended before it needed its open row does not ask how that went; the recorder has logged it."""
    if not committed.cancelled():
        committed.exception()


class _Batch:
    """What one flush writes."""

    def __init__(self) -> None:
        self.opens: list[tuple[CallRecord, asyncio.Future[None]]] = []
        self.marks: dict[str, Checkpoint] = {}
        self.closes: list[CallRecord] = []
        self.texts: list[CallText] = []
        self.waiters: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        return len(self.opens) + len(self.marks) + len(self.closes)

    def __bool__(self) -> bool:
        return bool(self.opens or self.marks or self.closes or self.waiters)

    def put_before(self, later: _Batch) -> None:
        """Make `later` begin with what this one could not write; a newer checkpoint wins."""
        later.marks = {**self.marks, **later.marks}
        later.closes[:0] = self.closes
        later.texts[:0] = self.texts
        later.waiters[:0] = self.waiters


class Recorder:
    """`async with Recorder(store) as recorder`: at its end, everything handed in has been written."""

    def __init__(
        self,
        store: CallStore,
        *,
        secrets: tuple[Secret, ...] = (),
        limit: int = 4096,
        retry_s: float = 0.5,
        patience_s: float = 10.0,
    ) -> None:
        self._store = store
        self.secrets = secrets
        self._limit = limit
        self._retry_s = retry_s
        self._patience_s = patience_s
        self._ready = threading.Condition()  # guards the five below; held for a swap or an append, never for I/O
        self._batch = _Batch()
        self._taken = _Batch()
        self._idle = False
        self._wanted = False
        self._linger: asyncio.Handle | None = None
        self._linger_at = 0.0  # uvloop's handle does not know it, where the time is short
        self._told_at = -OPENS_APART_S
        self._stopping = False
        self._gave_up = threading.Event()
        self._room: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._flushes = self._rows = self._largest = self._retries = self._rejected = self._texts_dropped = 0

    async def start(self) -> None:
        """Begin to write.  Call it in the loop that will open calls."""
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="rivermouth-recorder", daemon=True)
        self._thread.start()

    async def open(self, record: CallRecord) -> None:
        """Returns when the open row is committed.  Raises `ApiError` when it cannot be.

        Cancelled, it leaves open whether there is a row: `close` is right in both cases.
        """
        loop, room = self._running()
        while self._load() >= self._limit and not self._stopping:
            room.clear()
            await room.wait()
        committed = loop.create_future()
        with self._ready:
            if self._stopping:
                raise ApiError(Kind.OVERLOADED, "the server is shutting down")
            self._batch.opens.append((record, committed))
            self._wake()
        await committed

    def begin(self, record: CallRecord) -> Opening:
        """`open`, to be waited for later; without a task of its own while there is room."""
        loop, _ = self._running()
        if self._load() >= self._limit or self._stopping:
            return Opening(asyncio.ensure_future(self.open(record)), _nothing)
        committed = loop.create_future()
        with self._ready:
            batch = self._batch
            batch.opens.append((record, committed))
            self._wake_soon(self._told_at + OPENS_APART_S - loop.time())
        return Opening(committed, partial(self._hurry, batch))

    def checkpoint(
        self,
        call_id: str,
        output_tokens: int | None,
        text_chars: int,
        *,
        estimated: bool = True,
        attempt: AttemptRecord | None = None,
    ) -> None:
        """What the call has produced so far: what its record will say if this process is killed."""
        with self._ready:
            before = self._batch.marks.get(call_id)
            if attempt is None and before is not None:
                attempt = before.attempt
            self._batch.marks[call_id] = Checkpoint(call_id, output_tokens, text_chars, estimated, attempt)
            self._wake_soon(MARKS_LINGER_S)

    def close(self, record: CallRecord, text: CallText | None = None) -> None:
        """The call's one end.  Never waits, never drops; a second end of a call is ignored by the store.

        text: what was said, which is dropped where more waits already than may.
        """
        record = clean(record, self.secrets)
        with self._ready:
            self._batch.marks.pop(record.id, None)
            self._batch.closes.append(record)
            if text is not None:
                self._keep_text(text)
            self._wake_soon(ENDS_LINGER_S)

    async def flush(self) -> None:
        """Returns when everything handed in before is committed."""
        loop, _ = self._running()
        written = loop.create_future()
        with self._ready:
            self._batch.waiters.append(written)
            self._wake()
        await written

    async def aclose(self) -> None:
        """Write everything, then stop.  Raises `StoreError` if that was not possible within `patience_s`."""
        thread = self._thread
        if thread is None:
            return
        loop, room = self._running()
        with self._ready:
            self._stopping = True
            self._ready.notify()
        room.set()
        await loop.run_in_executor(None, thread.join, self._patience_s)
        self._gave_up.set()
        await loop.run_in_executor(None, thread.join, self._patience_s)
        self._thread = None
        lost = self._load()
        if lost:
            _log.error("record.lost", rows=lost)
            raise StoreError(f"{lost} records could not be written before the end")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def statistics(self) -> RecorderStatistics:
        with self._ready:
            return RecorderStatistics(
                opens=len(self._batch.opens),
                marks=len(self._batch.marks),
                closes=len(self._batch.closes),
                writing=len(self._taken),
                limit=self._limit,
                flushes=self._flushes,
                rows=self._rows,
                largest_flush=self._largest,
                retries=self._retries,
                rejected=self._rejected,
                texts_dropped=self._texts_dropped,
            )

    def _running(self) -> tuple[asyncio.AbstractEventLoop, asyncio.Event]:
        if self._loop is None or self._room is None:
            raise RuntimeError("the recorder was not started")
        return self._loop, self._room

    def _load(self) -> int:
        return len(self._batch) + len(self._taken)

    def _wake(self) -> None:
        """What waits is to be written now, or as soon as what is being written is."""
        self._wanted = True
        if self._idle:
            self._idle = False
            self._ready.notify()

    def _hurry(self, batch: _Batch) -> None:
        """Somebody waits for what is in this one."""
        with self._ready:
            if batch is self._batch:
                self._wake()

    def _wake_soon(self, linger_s: float) -> None:
        """Nobody waits for this yet: it goes with whatever somebody waits for, or after this time."""
        if self._wanted:
            return
        if linger_s <= 0:
            self._wake()
            return
        loop, _ = self._running()
        at = loop.time() + linger_s
        if self._linger is not None:
            if self._linger_at <= at:
                return
            self._linger.cancel()
        self._linger, self._linger_at = loop.call_later(linger_s, self._lingered), at

    def _lingered(self) -> None:
        self._linger = None
        with self._ready:
            if self._batch:
                self._wake()

    def _keep_text(self, text: CallText) -> None:
        waiting = len(self._batch.texts) + len(self._taken.texts)
        if waiting < TEXTS_CAP:
            self._batch.texts.append(text)
        else:
            self._texts_dropped += 1

    # What follows runs in the writer's thread, but for `_resolve` and `_refuse`.

    def _run(self) -> None:
        try:
            self._serve()
        finally:  # by `aclose`, or by a fault of ours: nobody may wait for a thread that has ended
            with self._ready:
                self._stopping = True
                batches = (self._taken, self._batch)
                waiting = [f for b in batches for f in (*(f for _, f in b.opens), *b.waiters)]
            self._tell(self._refuse, waiting, ApiError(Kind.INTERNAL, "the recorder has stopped"))

    def _serve(self) -> None:
        while True:
            with self._ready:
                while not (self._wanted and self._batch) and not self._stopping:
                    self._wanted, self._idle = False, True
                    self._ready.wait()
                self._wanted = self._idle = False
                if not self._batch or self._gave_up.is_set():
                    return
                self._taken, self._batch = self._batch, _Batch()
            self._write(self._taken)

    def _write(self, batch: _Batch) -> None:
        marks = tuple(batch.marks.values())
        try:
            texts = [_clean_text(text, self.secrets) for text in batch.texts]
            self._store.write([r for r, _ in batch.opens], marks, batch.closes, texts)
        except StoreError as error:
            if error.passing:
                self._keep(batch, error)
            else:
                self._write_singly(batch, error)
            return
        with self._ready:
            self._flushes += 1
            self._rows += len(batch)
            self._largest = max(self._largest, len(batch))
            self._taken = _Batch()
        self._tell(self._resolve, [f for _, f in batch.opens] + batch.waiters)

    def _keep(self, batch: _Batch, error: StoreError) -> None:
        """The store cannot write now: whoever waits to open is told, ends and checkpoints stay for the next try."""
        _log.warning("record.delayed", reason=str(error), rows=len(batch))
        with self._ready:
            batch.put_before(self._batch)
            self._taken = _Batch()
            self._wanted = True
            self._retries += 1
        refused = ApiError(Kind.OVERLOADED, "the call could not be recorded", retry_after_s=1.0)
        self._tell(self._refuse, [f for _, f in batch.opens], refused)
        self._gave_up.wait(self._retry_s)

    def _write_singly(self, batch: _Batch, error: StoreError) -> None:
        """Some row is refused for itself: find it, and write the others."""
        _log.error("record.refused", reason=str(error), rows=len(batch))
        opened = [f for r, f in batch.opens if self._try(lambda r=r: self._store.insert_open([r]))]  # type: ignore[misc]
        for mark in batch.marks.values():
            self._try(lambda m=mark: self._store.checkpoint([m]))  # type: ignore[misc]
        for record in batch.closes:
            if not self._try(lambda r=record: self._store.close([r])):  # type: ignore[misc]
                self._try(lambda r=record: self._store.close([_bare(r)]))  # type: ignore[misc]
        for text in batch.texts:
            self._try(lambda t=text: self._store.write((), (), (), [_clean_text(t, self.secrets)]))  # type: ignore[misc]
        with self._ready:
            self._flushes += 1
            self._rows += len(batch)
            self._taken = _Batch()
        self._tell(self._resolve, opened + batch.waiters)
        refused = [f for _, f in batch.opens if f not in opened]
        self._tell(self._refuse, refused, ApiError(Kind.INTERNAL, "the call could not be recorded"))

    def _try(self, write: Callable[[], object]) -> bool:
        while True:
            try:
                write()
            except StoreError as error:
                if error.passing and not self._gave_up.wait(self._retry_s):
                    continue
                self._rejected += 1
                _log.error("record.rejected", reason=str(error))
                return False
            return True

    def _tell(self, function: Callable[..., None], *arguments: object) -> None:
        loop, _ = self._running()
        if not loop.is_closed():
            loop.call_soon_threadsafe(function, *arguments)

    def _resolve(self, futures: list[asyncio.Future[None]]) -> None:
        loop, room = self._running()
        self._told_at = loop.time()
        for future in futures:
            if not future.done():  # its caller may have been cancelled
                future.set_result(None)
        room.set()

    def _refuse(self, futures: list[asyncio.Future[None]], error: ApiError) -> None:
        for future in futures:
            if not future.done():
                future.set_exception(error)
        self._running()[1].set()
