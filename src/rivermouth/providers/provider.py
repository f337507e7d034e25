"""The port behind which models live: an HTTP upstream, a Python generator, a scripted model, an engine process.

One attempt at one target is an `Upstream`.  The engine asks it for batches until the stream's one end, and closes it
whatever happened; it never asks again after `Finish` or `Error`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from rivermouth.ir.events import Event
from rivermouth.ir.reply import EmbedReply, ModelInfo
from rivermouth.ir.request import EmbedRequest, Request
from rivermouth.wire.frame import Frame
from rivermouth.wire.stencil import Stencil


class Batch(NamedTuple):
    """Everything that arrived in one read, translated together.

    frames: set only when the client speaks the upstream's dialect: each frame with how many of `events` it made.
    body: set only for a non-streaming same-dialect reply: the upstream's JSON as it came.
    """

    events: list[Event]
    frames: list[tuple[Frame, int]] | None = None
    body: bytes | None = None


class Onward(Protocol):
    """Takes what arrives where it arrives, while a task waits for it."""

    def take(self, batch: Batch) -> bool:
        """False when the batch has to be fetched instead."""
        ...

    def plain(self, part: int, upstream: Stencil) -> Callable[[list[bytes]], bool] | None:
        """After a batch that was one text delta of this part: what takes the texts of further ones, untranslated.

        upstream: what stands around the text in a frame.  It is called with plain texts (`wire.stencil`) or any other
        bytes, and says False when they have to go the long way; it holds until anything else is taken.
        """
        ...


class Lease(Protocol):
    """What `prepare` holds for one call, such as a place in a queue, until `open` takes it over or it is closed."""

    def close(self) -> None:
        """Give it back; nothing if `open` took it over.  Idempotent."""
        ...


class _Nothing:
    def close(self) -> None:
        """There is nothing to give back."""


NOTHING: Final = _Nothing()
"""The lease of a target that need not be held."""


NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
"""What most targets have to say in the head of an answer."""


def _no_headers() -> Mapping[str, str]:
    return NO_HEADERS


CALL_HEADERS: Final[ContextVar[Callable[[], Mapping[str, str]]]] = ContextVar("call_headers", default=_no_headers)
"""Asked for each request that is made to an upstream for a call: headers that tell which call it is part of.  In the
context, since what a target is asked is the same without them."""


class Upstream(Protocol):
    """One attempt, running.  Nothing may be lost or leaked when `read` is cancelled, as long as `close` follows."""

    @property
    def headers(self) -> Mapping[str, str]:
        """What the head of the client's answer says of this attempt, by lower-case name; complete after one `read`."""
        ...

    async def read(self, onward: Onward | None = None) -> Batch:
        """The next batch; `events` may be empty (keep-alive noise).  Raises `ApiError` on failure.

        While it waits, it may offer each batch that arrives to `onward`; those that are taken are done, the first that
        is not is returned.  Waking a task for each of a thousand slow streams costs as much as translating the token.
        """
        ...

    async def close(self) -> None:
        """Stop the work: close the socket, tell the engine.  Returns when that is confirmed.  Idempotent."""
        ...


class Provider(Protocol):
    """Where calls go.  `name` is the word in "provider/model" and in records; `dialect` the one it speaks, if any."""

    name: str
    dialect: str | None

    async def prepare(self, request: Request | EmbedRequest, model: str) -> Lease:
        """Make the target ready (load a local model, wait for a place at it) and hold it.

        The call's clocks start when this returns; whoever asked closes the lease, whatever comes of the call.
        Raises `ApiError`; then nothing is held, nor is it after a cancellation.
        """
        ...

    async def open(
        self, request: Request, model: str, lease: Lease, *, same_dialect: bool, warn: Callable[[str], None]
    ) -> Upstream:
        """Begin one attempt with what `prepare` gave for it.  Follows `request.stream`.

        `warn` is called with each request field that is ignored.  Raises `ApiError`; a failure before this returns has
        begun nothing.
        """
        ...

    async def embed(
        self, request: EmbedRequest, model: str, lease: Lease, *, warn: Callable[[str], None]
    ) -> EmbedReply:
        """Vectors for texts, with what `prepare` gave for them.  When it is cancelled, it ends with the work.

        `warn` is called with each request field that is ignored.  Raises `ApiError` (not_found where it has no
        embeddings).
        """
        ...

    async def models(self) -> list[ModelInfo]:
        """What can be asked for here.  Raises `ApiError` when it cannot be found out."""
        ...

    async def close(self) -> None:
        """Release connections, threads, processes."""
        ...
