"""`rivermouth replay`: a stream that was recorded at some provider, as a client of any dialect would have got it.

The same path as in the server: bytes, frames, events, bytes; nothing is asked and nobody is called.  Whose stream it is
shows in the reading: every dialect reads the beginning, and the one that makes the most of it is taken.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
import typer

from rivermouth.cli.term import Exit, fail
from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Answer, Dialect, Operation
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.events import Error, Event, Finish, PartStart, Start, Unknown
from rivermouth.ir.request import Request
from rivermouth.wire import json
from rivermouth.wire.frame import Frame, Reader

READ_BYTES: Final = 64 * 1024
GUESS_BYTES: Final = 256 * 1024
"""So much of a file is read to find out whose it is."""
ID_CHARS: Final = 32
UNNAMED: Final = "replay"
"""What the model is called where the stream does not say."""
ASKED: Final = Request(model=UNNAMED, messages=(), stream=True, include_usage=True)
STDIN: Final = Path("-")
LINE_END: Final = b"\n\n"
"""What an editor may have taken away at the end of a file."""
CREATED: Final = range(253_402_300_800)
"""The Unix seconds that have a date; a provider may say anything."""
MALFORMED: Final = "malformed"

Write = Callable[[list[Event]], bytes]


class Understood(IntEnum):
    """How much a dialect makes of a stream."""

    NOTHING = 0
    FAILURE = 1
    """Only that it failed."""
    EMPTY = 2
    """Only that it ended well: what was said may stand where another protocol has it."""
    CONTENT = 3
    END = 4
    """All of it, to its good end."""


def run(*, file: Path, to: str | None, source: str | None, as_events: bool, model: str | None) -> None:
    """Writes the stream to stdout.  One that ends badly is told as a client is told, and the exit code is 1."""
    if (to is None) is not as_events:
        raise typer.BadParameter("one of --to and --events says what is written")
    try:
        error = written(file, to, source, model)
    except BrokenPipeError:  # the reader has had enough, as `head` has; nor may the interpreter's own flush fail
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return
    if error is not None:
        fail(f"the stream ended badly ({error.kind}): {error.message}", Exit.FAILED)


def written(file: Path, to: str | None, source: str | None, model: str | None) -> ApiError | None:
    """Writes the stream, and returns what it failed of.  Raises `BrokenPipeError` when nobody reads any more."""
    client = dialect_named(to, "--to") if to is not None else None
    upstream = dialect_named(source, "--from") if source is not None else None
    error: ApiError | None = None
    with opened(file) as (recorded, recorded_ns):
        head = recorded.read(GUESS_BYTES)
        if upstream is None:
            upstream = guessed(head)
        elif understood(list(chain.from_iterable(read(upstream, [head])))) is Understood.NOTHING:
            refuse_what_is_none(head)
        call_id = sha256(head).hexdigest()[:ID_CHARS]
        write = lines if client is None else frames(client, call_id, recorded_ns, model)
        for events in read(upstream, chain([head], iter(lambda: recorded.read(READ_BYTES), b""))):
            error = events[-1].error if isinstance(events[-1], Error) else None
            try:
                sys.stdout.buffer.write(write(events))
            except ApiError as failure:  # more than the client's protocol can say
                error = failure
                sys.stdout.buffer.write(write([Error(failure)]))
                break
        sys.stdout.buffer.flush()
    return error


@contextmanager
def opened(file: Path) -> Iterator[tuple[BinaryIO, int]]:
    """The bytes, and when they were recorded, in Unix nanoseconds."""
    if file == STDIN:
        yield sys.stdin.buffer, time.time_ns()
        return
    with file.open("rb") as recorded:
        yield recorded, os.fstat(recorded.fileno()).st_mtime_ns


def dialect_named(name: str, option: str) -> Dialect:
    known = discover()
    if name not in known:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(sorted(known))}", param_hint=option)
    return known[name]


# -- from bytes to events


def read(dialect: Dialect, pieces: Iterable[bytes]) -> Iterator[list[Event]]:
    """The events of the pieces, up to the one end; what is no such stream ends with an error that says so."""
    reader, decoder = dialect.reader(), dialect.decoder(ASKED)
    try:
        for piece in pieces:
            for frame in frames_of(reader, piece):
                events = decoder.feed(frame)
                if events:
                    yield events
                    if isinstance(events[-1], Finish | Error):
                        return
    except WireError as error:
        yield [Error(ApiError(Kind.UPSTREAM, f"{dialect.name}: malformed: {error}", code=MALFORMED))]
        return
    try:
        found = [event for frame in reader.feed(LINE_END) for event in decoder.feed(frame)]
    except WireError:  # a frame that was cut: the decoder says so
        found = []
    if events := found + decoder.eof():
        yield events


def frames_of(reader: Reader, piece: bytes) -> Iterator[Frame]:
    """The frames of a piece; what is none raises after those before it."""
    try:
        yield from reader.feed(piece)
    except WireError as error:
        yield from error.frames
        raise


def guessed(head: bytes) -> Dialect:
    """Whose stream begins so.  Leaves the program where that is not clear."""
    candidates = guess(head)
    if not candidates:
        refuse_what_is_none(head)
        fail("no dialect makes anything of it; --from says whose it is", Exit.FAILED)
    if len(candidates) > 1:
        raise typer.BadParameter(f"it could be {' or '.join(candidates)}; --from says whose it is")
    return discover()[candidates[0]]


def refuse_what_is_none(head: bytes) -> None:
    """Leaves the program where a file holds nothing, or one document, as a call without `stream` gets."""
    if not head.strip():
        fail("this is no stream: there is nothing in it", Exit.FAILED)
    try:
        whole = json.decode(head)
    except WireError:
        return
    if isinstance(whole, dict):
        fail(
            "this is no stream, but one whole answer; ask with `stream: true`, and keep the bytes as they come",
            Exit.FAILED,
        )


def guess(head: bytes) -> list[str]:
    """The dialects that understand the most of it; one of those that read the very same is enough."""
    readings = {name: list(chain.from_iterable(read(d, [head]))) for name, d in sorted(discover().items())}
    best = max(map(understood, readings.values()), default=Understood.NOTHING)
    if best is Understood.NOTHING:
        return []
    meanings: list[list[Event]] = []
    found = []
    for name, events in readings.items():
        meaning = without_words(events)
        if understood(events) is best and meaning not in meanings:
            meanings.append(meaning)
            found.append(name)
    return found


def understood(events: list[Event]) -> Understood:
    end = events[-1] if events else None
    said = any(type(event) is PartStart for event in events)
    if isinstance(end, Finish):
        return Understood.END if said else Understood.EMPTY
    if said:
        return Understood.CONTENT
    strange = any(type(event) is Unknown for event in events)
    if isinstance(end, Error) and end.error.kind is not Kind.TRUNCATED and end.error.code != MALFORMED and not strange:
        return Understood.FAILURE
    return Understood.NOTHING


def without_words(events: list[Event]) -> list[Event]:
    """The events; of an error only its kind."""
    return [Error(ApiError(e.error.kind, "")) if isinstance(e, Error) else e for e in events]


# -- from events to bytes


def frames(dialect: Dialect, call_id: str, recorded_ns: int, model: str | None) -> Write:
    """What a client of the dialect is sent."""
    encoder = None

    def write(events: list[Event]) -> bytes:
        nonlocal encoder
        if encoder is None:
            start = events[0] if isinstance(events[0], Start) else Start()
            created = start.created
            created_ns = created * 10**9 if created is not None and created in CREATED else recorded_ns
            routes = [r for r in dialect.routes if r.operation is Operation.GENERATE and r.streams]
            encoder = dialect.encoder(
                Answer(
                    id=call_id,
                    model=model or start.model or UNNAMED,
                    created_ns=created_ns,
                    surface=dialect.surfaces[0],
                    kind=next((r.kind for r in routes if r.kind == "chat"), routes[0].kind),
                    request=ASKED,
                )
            )
        return encoder.feed(events)

    return write


def lines(events: list[Event]) -> bytes:
    """The events, a JSON object on each line."""
    return b"".join(json.encode(described(event)) + b"\n" for event in events)


def described(event: Event) -> dict[str, Any]:
    """`{"TextDelta": {...}}`, members that have their default left out."""
    if isinstance(event, Error):
        code = {"code": event.error.code} if event.error.code is not None else {}
        return {"Error": {"kind": event.error.kind.value, "message": event.error.message, **code}}
    if isinstance(event, Unknown):
        return {"Unknown": {"name": event.name, "data": event.data.decode("utf-8", "replace")}}
    fields = {
        f.name: getattr(event, f.name)
        for f in msgspec.structs.fields(type(event))
        if f.required or getattr(event, f.name) != f.default
    }
    return {type(event).__name__: fields}
