"""What a request to an engine process has come to, from the server's side.

Words of the process are handed to the request that they are about; what it waits for is then there.  A word that does
not belong there means that the process does not keep to the protocol, and ends it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from rivermouth.bridge import AsyncTokenStream
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.local.words.protocol import Began, Delta, Done, Embedded, Failed, Vectors

PROVIDER: Final = "local"
FLOAT_BYTES: Final = 4

Vector = tuple[float, ...]
About = Began | Delta | Done | Vectors | Embedded | Failed


class Work(Protocol):
    """One request in an engine process.  `closed` is set when the process works on it no more."""

    id: int
    closed: asyncio.Event

    def hear(self, word: About) -> None:
        """Takes one word of the process.  Raises `WireError` for one that does not belong here."""
        ...

    def give_up(self) -> None:
        """Nobody waits for its outcome any more."""
        ...

    def fail(self, error: ApiError) -> None:
        """A bad end, told to whoever waits."""
        ...


class Generation:
    """One answer being made.  `stream` has its text; `began` what the prompt came to; `done` the end, once there.

    abort: asks for its end, from the loop.
    """

    def __init__(self, identity: int, abort: Callable[[int], None], timeout_s: float, max_pending: int) -> None:
        loop = asyncio.get_running_loop()
        self.id = identity
        self.done: Done | None = None
        self.closed = asyncio.Event()
        self.began: asyncio.Future[Began] = loop.create_future()
        self.stream = AsyncTokenStream(
            timeout_s=timeout_s,
            on_abort=lambda: _on_loop(loop, abort, identity),
            max_pending=max_pending,
        )

    def hear(self, word: About) -> None:
        match word:
            case Began():
                if not self.began.done():
                    self.began.set_result(word)
            case Delta():
                self.stream.push(word.text)
            case Done():
                self.done = word
                if not self.began.done():
                    self.began.set_result(Began(word.id, word.prompt_tokens))
                self.stream.finish(word.reason)
                self.closed.set()
            case Failed():
                self.fail(failure(word))
            case _:
                raise WireError(f"{type(word).__name__} about an answer")

    def give_up(self) -> None:
        self.stream.cancel()

    def fail(self, error: ApiError) -> None:
        if not self.began.done():
            self.began.set_exception(error)
            self.began.exception()  # read here: nobody may be waiting for it
        self.stream.fail(error)
        self.closed.set()


class Embedding:
    """Vectors being made of `count` texts.  `outcome` is the end; then `vectors` are all there, in the texts' order."""

    def __init__(self, identity: int, count: int) -> None:
        self.id = identity
        self.closed = asyncio.Event()
        self.outcome: asyncio.Future[Embedded] = asyncio.get_running_loop().create_future()
        self._vectors: list[Vector | None] = [None] * count

    @property
    def vectors(self) -> list[Vector]:
        """Those that are there."""
        return [vector for vector in self._vectors if vector is not None]

    def hear(self, word: About) -> None:
        match word:
            case Vectors():
                for at, vector in zip(word.at, unpacked(word.data, len(word.at)), strict=True):
                    if not 0 <= at < len(self._vectors):
                        raise WireError(f"a vector of text {at}, which was not sent")
                    self._vectors[at] = vector
            case Embedded():
                if word.reason == "done" and None in self._vectors:
                    raise WireError("embedded without all vectors")
                if not self.outcome.done():
                    self.outcome.set_result(word)
                self.closed.set()
            case Failed():
                self.fail(failure(word))
            case _:
                raise WireError(f"{type(word).__name__} about vectors")

    def give_up(self) -> None:
        self.outcome.cancel()

    def fail(self, error: ApiError) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(error)
            self.outcome.exception()  # read here: nobody may be waiting for it
        self.closed.set()


def unpacked(data: str, count: int) -> list[Vector]:
    """`count` vectors of one width.  Raises `WireError`."""
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise WireError("vectors that are not base64") from None
    width = len(raw) // FLOAT_BYTES // max(count, 1)
    if not width or len(raw) != width * FLOAT_BYTES * count:
        raise WireError(f"{len(raw)} bytes for {count} vectors")
    return list(struct.iter_unpack(f"<{width}f", raw))


def failure(word: Failed) -> ApiError:
    """What the process says of one request, as the error of its call."""
    return ApiError(
        Kind(word.kind), word.message, code=word.code, param=word.param, provider=PROVIDER, foreign=word.foreign
    )


def _on_loop(loop: asyncio.AbstractEventLoop, function: Callable[[int], None], argument: int) -> None:
    """From any thread; nothing when the loop has gone, because the process goes with it."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, argument)
