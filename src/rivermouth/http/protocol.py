"""uvicorn's HTTP/1.1 protocol with the bounds of a server that strangers can reach.

uvicorn leaves seven things open.  A head may have any size and take any time: here it has `HEAD_CAP_BYTES` and
`HEAD_S`.  Bytes that are no request are answered with 400 even while an earlier request is being answered, so the 400
would stand in the middle of that answer (F14): here the connection is closed instead.  A request that offers another
protocol (curl and Java do so with h2c) loses its body, which would then be read as the next request: here the offer is
declined, as HTTP allows.  When the client leaves, only the
newest of several pipelined requests is told, and the one that runs would go on to its end (F31): here all are.  Nor
does it learn that a client has left which has pipelined more, since it does not read on: here the system is asked.  A
client of HTTP/1.0, which proxies may be, gets chunks that it cannot read: here it gets the bytes (`unframed`).  What
waits for a client that reads no more would wait for ever, with its socket: here for `STALL_S`.

An application behind it finds ways past ASGI's messages in `scope["extensions"]`: to hang up, to write, to have the
body, to be told that the client has left.  They know the request's cycle and it knows the scope, so whoever is done
with a request empties them, or all that it held would wait for the collector.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

HEAD_CAP_BYTES: Final = 64 * 1024
HEAD_S: Final = 60.0
LOOK_S: Final = 0.25
"""How often it is looked whether a client that is not read is there still."""
STALL_S: Final = 600.0
"""How long a client may take nothing of what waits for it."""
HANG_UP: Final = "rivermouth.hang_up"
"""The extension of the scope by which an application closes the connection at once, whatever waits to be sent."""

WRITE: Final = "rivermouth.write"
"""The extension by which a stream that has begun writes a chunk at once; see `write_chunk`."""

ANSWER: Final = "rivermouth.answer"
"""The extension by which a whole answer is written at once; see `write_answer`."""

LEAVE: Final = "rivermouth.leave"
"""The extension that takes what is to be called, once, when the client leaves before its answer is whole; None takes it
back.  Waiting for ASGI's own word needs a task for as long as the answer takes."""

BODY: Final = "rivermouth.body"
"""The extension that gives the request's body, if all of it is here and nobody has had it: so no clock need be set."""

CLOSED: Final = frozenset({7, 8})
"""TCP's states after a reset, and after the other side's end (Linux: `TCP_CLOSE`, `TCP_CLOSE_WAIT`)."""
KEEP_ALIVE: Final = (b"connection", b"keep-alive")
UPGRADE_HEADERS: Final = frozenset({b"upgrade", b"connection", b"http2-settings"})
TOO_LARGE: Final = b"431 Request Header Fields Too Large"
TOO_SLOW: Final = b"408 Request Timeout"
_ODD: Final = bytes(code for code in (*range(0x20), 0x7F) if code not in b"\t\r\n")
"""What stands nowhere in a head."""


def write_chunk(cycle: RequestResponseCycle, data: bytes) -> bool:
    """Write a piece of a chunked body that has begun; False when only `send` can: it waits for a slow client.

    A stream of a thousand chunks would else pay for a thousand messages, coroutines and checks of their order.
    """
    if cycle.flow.write_paused or not cycle.chunked_encoding or not cycle.response_started or cycle.response_complete:
        return False
    if data and not cycle.disconnected:  # an empty chunk would be the end
        cycle.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
    return True


def has_left(transport: asyncio.Transport) -> bool:
    """The client has closed its side, whatever is unread before that.  False where the system does not say."""
    sock, option = transport.get_extra_info("socket"), getattr(socket, "TCP_INFO", None)
    if sock is None or option is None:
        return False
    try:
        return sock.getsockopt(socket.IPPROTO_TCP, option, 1)[0] in CLOSED
    except OSError:  # no socket of TCP
        return False


def take_body(cycle: RequestResponseCycle) -> bytes | None:
    """The whole body, once; None when some of it is still to come, and `receive` has to wait for that."""
    if cycle.more_body or cycle.disconnected or cycle.waiting_for_100_continue:
        return None
    body, cycle.body = bytes(cycle.body), bytearray()
    cycle.message_event.clear()
    cycle.flow.resume_reading()
    return body


def unframed(cycle: RequestResponseCycle) -> Callable[[Any], Coroutine[Any, Any, None]]:
    """The `send` of an answer to HTTP/1.0: a body of no known length goes out bare, and ends with the connection."""
    send, bare = cycle.send, False

    async def sending(message: Any) -> None:
        nonlocal bare
        if message["type"] == "http.response.start":
            headers = [header for header in message.get("headers", ()) if header != KEEP_ALIVE]
            bare = all(name != b"content-length" for name, _ in headers)
            if bare:
                cycle.chunked_encoding = False
            message = {**message, "headers": headers}
        elif bare:
            cycle.expected_content_length = len(message.get("body", b""))
        await send(message)

    return sending


def write_answer(cycle: RequestResponseCycle, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
    """Write a whole answer, whose headers give its length; False when only `send` can, and nothing is written then.

    names: in lower case, as everywhere here.
    """
    if cycle.flow.write_paused or cycle.response_started or cycle.scope["method"] == "HEAD":
        return False
    if cycle.disconnected:
        return True
    headers = [*cycle.default_headers, *headers]
    closes = (b"connection", b"close") in headers
    if not cycle.keep_alive and not closes:
        headers.append((b"connection", b"close"))
    lines = b"".join([b"%b: %b\r\n" % header for header in headers])
    if not len(headers) == lines.count(b"\r") == lines.count(b"\n") or len(lines.translate(None, _ODD)) < len(lines):
        return False  # a header with a line end in it would be two
    cycle.keep_alive = cycle.keep_alive and not closes
    cycle.waiting_for_100_continue = False
    cycle.response_started = cycle.response_complete = True
    cycle.transport.write(b"%b%b\r\n%b" % (STATUS_LINE[status], lines, body))
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


class Protocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._earlier: list[RequestResponseCycle] = []
        self._in_head = False
        self._head_bytes = 0
        self._head_clock: asyncio.TimerHandle | None = None
        self._stall_clock: asyncio.TimerHandle | None = None
        self._look_clock: asyncio.TimerHandle | None = None
        self._leaving: dict[RequestResponseCycle, Callable[[], None]] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_begins()
        self._head_waits()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_ends()
        self._stall_ends()
        if self._look_clock is not None:
            self._look_clock.cancel()
        self._client_left()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall_begins()

    def resume_writing(self) -> None:
        self._stall_ends()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
            return
        except httptools.HttpParserUpgrade as upgrade:
            self._decline(data[upgrade.args[0] :])
            return
        if self._in_head:
            self._head_waits()
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_CAP_BYTES:
                self._refuse(TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {HANG_UP: self._hang_up}  # type: ignore[dict-item]
        if not self._in_head:
            self._head_begins()

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            return  # `_decline` reads this head again
        self._head_ends()
        before = self.cycle
        super().on_headers_complete()
        cycle, extensions = self.cycle, self.scope["extensions"]
        extensions[WRITE] = partial(write_chunk, cycle)  # type: ignore[assignment]
        extensions[ANSWER] = partial(write_answer, cycle)  # type: ignore[assignment]
        extensions[LEAVE] = partial(self._watch, cycle)  # type: ignore[assignment]
        extensions[BODY] = partial(take_body, cycle)  # type: ignore[assignment]
        if self.scope["http_version"] == "1.0":
            cycle.send = unframed(cycle)  # type: ignore[method-assign, assignment]
        if before is not None and not before.response_complete:
            self._earlier = [cycle for cycle in self._earlier if not cycle.response_complete]
            self._earlier.append(before)
            if self._look_clock is None:
                self._look_clock = self.loop.call_later(LOOK_S, self._look)

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def _decline(self, rest: bytes) -> None:
        """Read the request as if it had not asked for another protocol (RFC 9110, 7.8); `rest` follows its head.

        The parser stops at such a head and takes no body; what follows must not be read as a request of its own.
        """
        method = self.parser.get_method()
        if method == b"CONNECT":
            self.send_400_response("Invalid HTTP request received.")
            return
        lines = [method + b" " + self.url + b" HTTP/" + self.parser.get_http_version().encode()]
        lines += [name + b": " + value for name, value in self.headers if name not in UPGRADE_HEADERS]
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"\r\n".join(lines) + b"\r\n\r\n" + rest)

    def send_400_response(self, msg: str) -> None:
        self._head_ends()
        if self._answering():
            self.transport.close()
        else:
            super().send_400_response(msg)

    def _client_left(self) -> None:
        """Tell every request of this connection that is not yet answered."""
        for cycle in (*self._earlier, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        leaving, self._leaving = self._leaving, {}
        for gone in leaving.values():
            gone()

    def _watch(self, cycle: RequestResponseCycle, gone: Callable[[], None] | None) -> None:
        if gone is None:
            self._leaving.pop(cycle, None)
        elif cycle.disconnected:
            gone()
        elif not cycle.response_complete:
            self._leaving[cycle] = gone
            cycle.flow.resume_reading()  # a socket that is not read does not say that it is closed

    def _look(self) -> None:
        """Pipelined requests wait, unread, and with them the word that there is nobody any more."""
        self._look_clock = None
        if all(cycle.response_complete for cycle in self._earlier):
            return
        if has_left(self.transport):
            self._hang_up()
        else:
            self._look_clock = self.loop.call_later(LOOK_S, self._look)

    def _hang_up(self) -> None:
        self._client_left()
        self.transport.abort()

    def _head_begins(self) -> None:
        self._in_head = True
        self._head_bytes = 0

    def _head_waits(self) -> None:
        """The rest of a head is still to come; most come whole, and need no clock."""
        if self._head_clock is None:
            self._head_clock = self.loop.call_later(HEAD_S, self._refuse, TOO_SLOW)

    def _head_ends(self) -> None:
        self._in_head = False
        if self._head_clock is not None:
            self._head_clock.cancel()
            self._head_clock = None

    def _stall_begins(self) -> None:
        waits_bytes = self.transport.get_write_buffer_size()
        self._stall_clock = self.loop.call_later(STALL_S, self._stalls, waits_bytes)

    def _stall_ends(self) -> None:
        if self._stall_clock is not None:
            self._stall_clock.cancel()
            self._stall_clock = None

    def _stalls(self, waited_bytes: int) -> None:
        """Whoever has taken something since is slow, and no more."""
        if self.transport.get_write_buffer_size() < waited_bytes:
            self._stall_begins()
        else:
            self._hang_up()

    def _refuse(self, status: bytes) -> None:
        """The head is not within its bounds: an answer without words, unless another one stands in its place."""
        self._head_ends()
        if not self.transport.is_closing():
            if self._head_bytes and not self._answering():
                self.transport.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            self.transport.close()

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete
