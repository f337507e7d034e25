"""One attempt's stream, from the upstream's reads to the client's sends.

One send for everything that arrived in one read; nothing of an attempt reaches the client before its first content
event (the commit point), so a failure before it leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from rivermouth.dialects.dialect import Answer
from rivermouth.engine.call import Call, Sink
from rivermouth.engine.deadlines import Deadlines
from rivermouth.engine.ledger import Line
from rivermouth.engine.output import Output, Unpassable
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Error, Event, Finish, Reason, Start, Usage, Warn
from rivermouth.ir.request import Request
from rivermouth.providers.provider import Batch, Upstream
from rivermouth.routing.block import routing_block
from rivermouth.store.port import Checkpoint
from rivermouth.wire.stencil import Stencil, plain_chars

DOCUMENT_CAP_CHARS: Final = 32 * 1024 * 1024
"""A non-streaming answer is held whole; this bounds it."""
HELD_CAP_BYTES: Final = 1024 * 1024
"""What an upstream may send before its first content; more is no answer but noise."""
CHECKPOINT_S: Final = 2.0
"""How much of a running call a kill can make the record forget, while few run."""
CHECKPOINTS_PER_S: Final = 100.0
"""Of all calls together: each is written while every other stream waits for the core, so with a thousand streams their
turns come round more slowly."""

_ENDS: Final = frozenset({Finish, Error})


class Flow(msgspec.Struct, frozen=True):
    """What the pump joins: one attempt's source, its clocks, and where its bytes go.

    draw: a number in [0, 1).  running: how many calls run now.
    """

    call: Call
    sink: Sink
    line: Line
    upstream: Upstream
    output: Output
    answer: Answer
    deadlines: Deadlines
    request: Request
    routing_key: str | None
    draw: Callable[[], float]
    running: Callable[[], int]
    checkpoint: Callable[[Checkpoint], None]


async def pump(flow: Flow) -> None:
    """Reads to writes until the one end.  Raises the `ApiError` of an attempt that failed."""
    held: list[bytes] = []
    try:
        await _pump(flow, held)
    except Unpassable as stopped:
        if flow.request.stream and flow.line.tally.produced:  # as with every failure: what came before it is passed on
            await flow.call.commit()
            await _send(flow, b"".join(held) + stopped.before)
        raise


async def _pump(flow: Flow, held: list[bytes]) -> None:
    """held: what nobody has sent yet."""
    call, tally, out, deadlines = flow.call, flow.line.tally, flow.output, flow.deadlines
    ledger, read, stream = call.ledger, flow.upstream.read, flow.request.stream
    while not call.committed:
        batch = await read()
        if tally.start is None and ledger.ignored:
            batch = _with_warnings(batch, ledger.ignored)
        if tally.feed(batch.events):
            deadlines.content()
            if ledger.first_token_ns is None:
                ledger.first_token_ns = ledger.since_ns()
        if tally.end is not None:
            return await _finish(flow, batch, b"".join(held))
        data = out.take(batch)
        if data:
            held.append(data)
        if stream and tally.produced:
            await call.commit()
            await _send(flow, b"".join(held))
            held.clear()
        else:
            _bound(held, tally.text_chars)
    passage = Passage(flow)
    while True:
        batch = await read(passage)
        if passage.take(batch):
            continue
        if passage.unsent:
            data, passage.unsent = passage.unsent, b""
            await _send(flow, data)
        else:
            tally.feed(batch.events)
            return await _finish(flow, batch, b"")


class Passage:
    """A stream that the client has begun to get: each batch goes straight from the upstream's socket to the client's.

    unsent: what a slow client has to be waited for with.
    """

    __slots__ = ("_checkpoint_at", "_deadlines", "_flow", "_out", "_tally", "_write", "unsent")

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._tally = flow.line.tally.feed
        self._out = flow.output.take
        self._write = flow.sink.write
        self._deadlines = flow.deadlines
        self._checkpoint_at = 0.0
        self.unsent = b""

    def take(self, batch: Batch) -> bool:
        """False, when there is something to wait for: the end, with nothing done, or a client that reads slowly."""
        events = batch.events
        if self.unsent or (events and type(events[-1]) in _ENDS):
            return False
        content = self._tally(events)
        data = self._out(batch)
        written = bool(data) and self._write(data)
        now = self._deadlines.passed(content=content, written=written)
        if now >= self._checkpoint_at:
            self._mark(now)
        if data and not written:
            self.unsent = data
        return not self.unsent

    def plain(self, part: int, upstream: Stencil) -> Callable[[list[bytes]], bool] | None:
        """The shortest way of all: the text of a delta between two constant ends.  Nobody reads it there, so it is not
        for a call whose text is kept."""
        stencil = self._flow.output.plain(part, upstream)
        if stencil is None or self.unsent or self._flow.call.transcript is not None:
            return None
        head, tail = stencil
        write, passed, tally = self._write, self._deadlines.passed, self._flow.line.tally

        seam = tail + head

        def take(texts: list[bytes]) -> bool:
            chars = 0
            for text in texts:
                found = plain_chars(text)
                if not found:
                    return False
                chars += found
            if not write(head + seam.join(texts) + tail):
                return False
            tally.text_chars += chars
            tally.chunks += len(texts)
            now = passed(content=True, written=True)
            if now >= self._checkpoint_at:
                self._mark(now)
            return True

        return take

    def _mark(self, now: float) -> None:
        """Keep what a kill can make the record forget small.

        The first time comes at a moment of its own: a thousand streams that began together would else come together for
        ever, and all their chunks wait for that.
        """
        apart_s = max(CHECKPOINT_S, self._flow.running() / CHECKPOINTS_PER_S)
        if self._checkpoint_at:
            self._flow.checkpoint(self._flow.call.ledger.checkpoint())
            self._checkpoint_at = now + apart_s
        else:
            self._checkpoint_at = now + apart_s * self._flow.draw()


async def _send(flow: Flow, data: bytes) -> None:
    """Send, and do not count the time that the client takes for it."""
    if data:
        flow.deadlines.sending()
        await flow.sink.send(data, last=False, head=flow.call.head())
        flow.deadlines.sent()


async def _finish(flow: Flow, batch: Batch, held: bytes) -> None:
    """The batch with the end in it.  Raises the upstream's own error, after passing on what came before it."""
    call, tally, out = flow.call, flow.line.tally, flow.output
    ledger, end = call.ledger, tally.end
    if isinstance(end, Error):
        before = _without_error(batch)
        if flow.request.stream and tally.produced and (before.events or before.frames):
            await call.commit()
            await flow.sink.send(held + out.take(before), last=False, head=call.head())
        raise end.error
    if not isinstance(end, Finish):
        raise TypeError("a stream ends with Finish or Error")
    if not tally.produced and _is_empty_failure(flow.request, end, tally.usage):
        raise ApiError(Kind.UPSTREAM, "the upstream ended its answer without any content", code="empty_answer")
    ledger.finish_reason = end.reason.value
    flow.answer.total_ns = ledger.since_ns()
    if flow.routing_key is not None:
        line = flow.line
        block = routing_block(line.endpoint, call.id, line.policy_id, ledger.cost())
        flow.answer.routing = (flow.routing_key, block)
    data = out.take(batch)
    await call.commit()
    flow.deadlines.sending()
    if flow.request.stream:
        await flow.sink.send(held + data, last=True, head=call.head())
    else:
        await flow.sink.document(data, head=call.head())


def _bound(held: list[bytes], text_chars: int) -> None:
    if sum(map(len, held)) > HELD_CAP_BYTES:
        raise ApiError(Kind.UPSTREAM, "the upstream sent too much before its first content")
    if text_chars > DOCUMENT_CAP_CHARS:
        raise ApiError(Kind.UPSTREAM, f"the answer is longer than {DOCUMENT_CAP_CHARS} characters")


def _is_empty_failure(request: Request, finish: Finish, usage: Usage | None) -> bool:
    """An answer without content is a failure (F12), unless something says that nothing was the right answer."""
    if finish.reason is not Reason.STOP or finish.stop_sequence is not None:
        return False
    if request.stop or request.max_tokens == 0 or not request.messages:
        return False
    return usage is None or not usage.output_tokens


def _with_warnings(batch: Batch, ignored: tuple[str, ...]) -> Batch:
    """The ignored fields as `Warn` events behind `Start`; a relayed batch stays as it is."""
    if batch.frames is not None or not batch.events or not isinstance(batch.events[0], Start):
        return batch
    warnings: list[Event] = [Warn(f"{name} is not supported by this model and was ignored", name) for name in ignored]
    return batch._replace(events=[batch.events[0], *warnings, *batch.events[1:]])


def _without_error(batch: Batch) -> Batch:
    """The batch up to the Error that ends it."""
    events, frames = batch.events[:-1], batch.frames
    if frames is not None and sum(count for _, count in frames) == len(batch.events):
        frames = frames[:-1]
        events = events[: sum(count for _, count in frames)]
    return Batch(events, frames)
