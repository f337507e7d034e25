"""Calls that may be resumed: what a client asks for, its log, and the address under which it comes again.

    POST <route>  x-rivermouth-resumable: 1      ->  x-rivermouth-resume: <base path>/resume/<call id>
    GET  /resume/<call id>?after=N               the same status and headers, and the bytes from N on
    HEAD /resume/<call id>                       how long the answer is so far, and whether that is all

The connection that made the call is a reader of the log like any other.  The sink of the call is that of every call;
only what it writes goes into the log, head and all, before any client sees it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from rivermouth.dialects.dialect import Dialect, Surface
from rivermouth.engine.call import Call
from rivermouth.engine.logged import Gone, LoggedCall, LoggedCalls, Owner, Unknown
from rivermouth.http.body import Here, Receive
from rivermouth.http.disconnect import Leave, Watched
from rivermouth.http.envelope import envelope
from rivermouth.http.headers import JSON, Header, get, identity
from rivermouth.http.keys import Caller, Keys
from rivermouth.http.protocol import ANSWER, BODY, HANG_UP, LEAVE, WRITE
from rivermouth.http.sink import AsgiSink, AtOnce, Send
from rivermouth.ir.errors import ApiError, Kind, invalid
from rivermouth.log.answer import AnswerLog, BrokenOffError, Reader, TrimmedError
from rivermouth.wire.sse import with_offset

PREFIX: Final = "/resume/"
ASKED: Final = "x-rivermouth-resumable"
_ASKED: Final = ASKED.encode()
WISH: Final = re.compile(r"(0|1|ids)(?:\s*;\s*grace=(\d{1,9}(?:\.\d{1,3})?))?", re.ASCII)
OFFSET: Final = re.compile(r"\d{1,18}", re.ASCII)
CONTENT_LENGTH: Final = b"content-length"


class Wish(msgspec.Struct, frozen=True):
    """What the client says of its call.  grace_s: how long it is to go on without a reader, at most.

    ids: each event of the stream is to say how many bytes there are up to its end, as `id:`.
    """

    grace_s: float | None = None
    ids: bool = False


class Connection(msgspec.Struct, frozen=True):
    """One client's connection, with its ways past ASGI's messages (`protocol`).  cors: what each answer carries."""

    receive: Receive
    send: Send
    write: Callable[[bytes], bool]
    hang_up: Callable[[], None]
    cors: tuple[Header, ...] = ()
    at_once: AtOnce | None = None
    leave: Leave | None = None
    here: Here | None = None

    @classmethod
    def of(cls, scope: Mapping[str, Any], receive: Receive, send: Send, cors: tuple[Header, ...]) -> Connection:
        extensions = scope.get("extensions", {})
        return cls(
            receive,
            send,
            extensions.get(WRITE, _cannot),
            extensions.get(HANG_UP, _stay),
            cors,
            extensions.get(ANSWER),
            extensions.get(LEAVE),
            extensions.get(BODY),
        )

    async def answer(self, status: int, headers: list[Header], body: bytes = b"") -> None:
        """One whole answer."""
        await self.send({"type": "http.response.start", "status": status, "headers": [*headers, *self.cors]})
        await self.send({"type": "http.response.body", "body": body, "more_body": False})


class Logging:
    """Makes logged calls of one edition.  within: that edition, to be entered by each call."""

    def __init__(self, calls: LoggedCalls, within: AbstractContextManager[Any], base_path: str) -> None:
        self._calls = calls
        self._within = within
        self._base_path = base_path.rstrip("/")

    def wish(self, headers: list[Header], caller: Caller) -> Wish | None:
        """None: the call is to be a plain one.  Raises `ApiError` for words that say nothing."""
        said = get(headers, _ASKED)
        if said is None:
            return Wish() if caller.resumable else None
        found = WISH.fullmatch(said.strip())
        if found is None:
            raise invalid(f'{ASKED} is "1", "ids" or "0", as in "1; grace=30"', ASKED, "invalid_resumable")
        grace_s = float(found[2]) if found[2] else None
        return Wish(grace_s, ids=found[1] == "ids") if found[1] != "0" else None

    def open(self, call: Call, caller: Caller, wish: Wish) -> LoggedCall | None:
        """None: there is no room.  Raises `ApiError` for ids where the stream has no place for them."""
        if wish.ids and call.streams and not _is_sse(call.surface):
            raise invalid("this stream is no event stream and has no ids; ask with 1", ASKED, "no_place_for_ids")
        return self._calls.open(call, owner_of(caller), wish.grace_s)

    def sink(self, logged: LoggedCall, call: Call, wish: Wish, identity: list[Header]) -> AsgiSink:
        """The engine's side of the log."""
        address = f"{self._base_path}{PREFIX}{call.id}"
        log = logged.log
        entries = Numbered(log) if wish.ids and call.streams else log
        headers = [*identity, (b"x-rivermouth-resume", address.encode())]
        return AsgiSink(_into(entries), call.dialect, call.surface, call.id, headers, log.break_off, entries.write)

    def run(self, logged: LoggedCall, work: Coroutine[Any, Any, None]) -> None:
        self._calls.run(logged, work, self._within)


class Numbered:
    """A log whose events say where they end."""

    def __init__(self, log: AnswerLog) -> None:
        self._log = log
        self.start = log.start

    def write(self, data: bytes) -> bool:
        return self._log.write(with_offset(data, self._log.end))

    async def send(self, data: bytes) -> None:
        await self._log.send(with_offset(data, self._log.end))

    def finish(self, data: bytes) -> None:
        self._log.finish(with_offset(data, self._log.end))


def _is_sse(surface: Surface) -> bool:
    return surface.stream_type.startswith("text/event-stream")


def _into(log: AnswerLog | Numbered) -> Send:
    """The messages of an answer, as entries of the log."""

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            log.start(message["status"], message["headers"])
        elif message["more_body"]:
            await log.send(message["body"])
        else:
            log.finish(message["body"])

    return send


async def read_out(logged: LoggedCall, connection: Connection, after: int = 0) -> None:
    """The answer from that offset on, to its end, or until the client leaves."""
    log = logged.log
    with (
        Reader(log, after, connection.write, connection.hang_up) as reader,
        Watched(connection.receive, reader.leave, connection.leave),
    ):
        if not await reader.head():
            if not reader.gone:
                failure = ApiError(Kind.INTERNAL, "internal error; the log has it under this id")
                await _fail(connection, failure, logged.dialect, logged.id)
            return
        try:
            await _pass_on(log, reader, connection, after)
        except (BrokenOffError, TrimmedError):
            connection.hang_up()


async def _pass_on(log: AnswerLog, reader: Reader, connection: Connection, after: int) -> None:
    headers = [_rest_of(header, after) for header in log.headers]
    await connection.send(
        {"type": "http.response.start", "status": log.status, "headers": [*headers, *connection.cors]}
    )
    log.known = True
    last = False
    while not (last or reader.gone):
        data, last = await reader.next()
        if data or last:
            await connection.send({"type": "http.response.body", "body": data, "more_body": not last})


def _rest_of(header: tuple[bytes, bytes], after: int) -> tuple[bytes, bytes]:
    name, value = header
    return (name, str(int(value) - after).encode()) if after and name == CONTENT_LENGTH else header


class Resumption:
    """`await resumption(keys, scope, connection)` for every path under `PREFIX`."""

    def __init__(self, calls: LoggedCalls) -> None:
        self._calls = calls

    @staticmethod
    def owns(path: str) -> bool:
        return path.startswith(PREFIX)

    async def __call__(self, keys: Keys, scope: Mapping[str, Any], connection: Connection) -> None:
        headers: list[Header] = list(scope["headers"])
        call_id = scope["path"].removeprefix(PREFIX)
        dialect: Dialect | None = None
        try:
            if scope["method"] not in ("GET", "HEAD"):
                raise ApiError(
                    Kind.INVALID_REQUEST, "this address takes GET and HEAD", status=405, code="method_not_allowed"
                )
            caller = keys.caller(headers, scope["query_string"])
            if caller is None:
                raise ApiError(Kind.AUTHENTICATION, "no valid API key was given", code="invalid_api_key")
            try:
                logged = self._calls.find(call_id, owner_of(caller))
            except Gone as gone:
                dialect = gone.dialect
                raise _gone("the log of this call is gone") from None
            except Unknown:
                raise ApiError(
                    Kind.NOT_FOUND, f"there is no call '{call_id[:100]}' to resume", code="call_not_found"
                ) from None
            dialect = logged.dialect
            if scope["method"] == "HEAD":
                await self._tell(logged, connection)
                return
            after = _after(logged.log, headers, scope["query_string"])
            if _is_over(logged.log, headers, after):
                await connection.answer(204, identity(logged.id, None))
                return
        except ApiError as error:
            await _fail(connection, error, dialect, call_id)
            return
        await read_out(logged, connection, after)

    async def _tell(self, logged: LoggedCall, connection: Connection) -> None:
        log = logged.log
        complete = log.ended and not log.broken
        told = [
            (b"x-rivermouth-resume-length", str(log.end).encode()),
            (b"x-rivermouth-resume-complete", b"true" if complete else b"false"),
        ]
        await connection.answer(200, [*identity(logged.id, None), *told, (b"cache-control", b"no-store")])


def owner_of(caller: Caller) -> Owner:
    return (caller.name, caller.key_id)


def _after(log: AnswerLog, headers: list[Header], query: bytes) -> int:
    """The offset that the client asks for.  Last-Event-ID wins: a browser sends it to the address that it has.

    Raises `ApiError` for what is none, or is not there.
    """
    given = parse_qs(query.decode("latin-1"), keep_blank_values=True).get("after", [])
    named = [value.decode("latin-1") for name, value in headers if name == b"last-event-id"]
    param = "last-event-id" if named else "after"
    texts = named or given or ["0"]
    if len(texts) > 1 or OFFSET.fullmatch(texts[0]) is None:
        raise invalid(f"{param} is the number of bytes of the body that are already here", param, "invalid_after")
    after = int(texts[0])
    if after > log.end:
        raise invalid(f"the answer has {log.end} bytes so far, not {after}", param, "invalid_after")
    if after < log.first:
        raise _gone(f"the log of this call begins at {log.first} now")
    return after


def _is_over(log: AnswerLog, headers: list[Header], after: int) -> bool:
    """A browser that has everything asks again all the same, until it is told that there is nothing."""
    whole = log.ended and not log.broken and after == log.end
    return whole and get(headers, b"last-event-id") is not None


def _gone(message: str) -> ApiError:
    return ApiError(Kind.NOT_FOUND, message, status=410, code="log_gone")


async def _fail(connection: Connection, error: ApiError, dialect: Dialect | None, call_id: str) -> None:
    """An error in the words of the call's dialect, where it is known whose call it is."""
    more: list[Header] = [(b"allow", b"GET, HEAD")] if error.status == 405 else []
    if dialect is None:
        body = envelope(error.status, error.message, error.code)
        await connection.answer(error.status, [JSON, (CONTENT_LENGTH, str(len(body)).encode()), *more], body)
        return
    failure = dialect.encode_error(error, call_id)
    more += [(name.lower().encode(), value.encode("latin-1")) for name, value in failure.headers.items()]
    length = (CONTENT_LENGTH, str(len(failure.body)).encode())
    await connection.answer(failure.status, [JSON, length, *identity(call_id, None), *more], failure.body)


def _cannot(data: bytes) -> bool:
    """Such a connection can be written to by `send` alone."""
    return False


def _stay() -> None:
    """A server that is not ours cannot be told to hang up."""
