"""Events of one attempt to the bytes of the client's answer: a stream, a passed-on stream, or one document.

Each attempt has an `Output` of its own, so a candidate that failed before it committed leaves no trace in the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rivermouth.dialects.dialect import Answer, Dialect
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.events import Error
from rivermouth.ir.fold import Fold
from rivermouth.providers.provider import Batch
from rivermouth.wire.stencil import Stencil


class Output(Protocol):
    """`take` gives what can be sent now; `fail` what ends an answer that had begun.

    plain: what stands around the next text delta of a part, where it may pass without being translated.
    """

    def take(self, batch: Batch) -> bytes: ...

    def plain(self, part: int, upstream: Stencil) -> Stencil | None: ...

    def fail(self, error: ApiError) -> bytes: ...


class Unpassable(ApiError):
    """The upstream's frame can be read, and cannot be passed on as it is.  before: the bytes of those before it."""

    def __init__(self, error: WireError, before: bytes = b"") -> None:
        super().__init__(Kind.UPSTREAM, f"malformed answer: {error}", code="malformed")
        self.before = before


class Translated:
    """Another dialect upstream, or none: neutral events through the client's encoder."""

    def __init__(self, dialect: Dialect, answer: Answer) -> None:
        encoder = dialect.encoder(answer)
        self._encode = encoder.feed
        self._plain: Callable[[int], Stencil | None] | None = getattr(encoder, "plain", None)

    def take(self, batch: Batch) -> bytes:
        return self._encode(batch.events)

    def plain(self, part: int, upstream: Stencil) -> Stencil | None:
        return self._plain(part) if self._plain is not None else None

    def fail(self, error: ApiError) -> bytes:
        return self._encode([Error(error)])


class Relayed:
    """The same dialect on both sides: the upstream's frames, only the touched fields edited."""

    def __init__(self, dialect: Dialect, answer: Answer) -> None:
        if dialect.relay is None:
            raise TypeError(f"{dialect.name} has no relay")
        self._relay = dialect.relay(answer)

    def take(self, batch: Batch) -> bytes:
        if batch.frames is None:
            raise TypeError("a relayed batch has its frames")
        feed = self._relay.feed
        events = batch.events
        done = 0
        out = []
        try:
            for frame, count in batch.frames:
                out.append(feed(frame, events[done : done + count]))
                done += count
        except WireError as error:
            raise Unpassable(error, b"".join(out)) from None
        return b"".join(out)

    def plain(self, part: int, upstream: Stencil) -> Stencil | None:
        found: Callable[[int, Stencil], Stencil | None] | None = getattr(self._relay, "plain", None)
        return found(part, upstream) if found is not None else None

    def fail(self, error: ApiError) -> bytes:
        return self._relay.fail(error)


class Document:
    """A client that wants one document: nothing until the end, then all of it."""

    def __init__(self, dialect: Dialect, answer: Answer) -> None:
        self._dialect = dialect
        self._answer = answer
        self._fold = Fold()

    def take(self, batch: Batch) -> bytes:
        if batch.body is not None and self._dialect.relay_reply is not None:
            try:
                return self._dialect.relay_reply(batch.body, self._answer)
            except WireError as error:
                raise Unpassable(error) from None
        self._fold.feed_all(batch.events)
        if self._fold.finish is None:
            return b""
        return self._dialect.encode_reply(self._fold.reply(), self._answer)

    def plain(self, part: int, upstream: Stencil) -> Stencil | None:
        return None

    def fail(self, error: ApiError) -> bytes:
        return self._dialect.encode_error(error, self._answer.id).body


def output(dialect: Dialect, answer: Answer, *, stream: bool, same_dialect: bool) -> Output:
    """The output for one attempt."""
    if not stream:
        return Document(dialect, answer)
    return Relayed(dialect, answer) if same_dialect else Translated(dialect, answer)
