"""The ways past ASGI's messages: whatever they do not do themselves is left to `send` and `receive`."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import pytest
from uvicorn import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from rivermouth.http.protocol import STALL_S, Protocol, take_body, write_answer
from tests.engine.jumping import jump

LENGTH: Final = (b"content-length", b"2")


class FakeTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False
        self.reading = True

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


def cycle(transport: FakeTransport, *, method: str = "POST", keep_alive: bool = True) -> RequestResponseCycle:
    scope: Any = {"type": "http", "method": method, "http_version": "1.1", "path": "/", "headers": []}
    quiet = logging.getLogger("quiet")
    return RequestResponseCycle(
        scope=scope,
        transport=transport,
        flow=FlowControl(transport),
        logger=quiet,
        access_logger=quiet,
        access_log=False,
        default_headers=[(b"date", b"today")],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=keep_alive,
        on_response=lambda: None,
    )


def test_a_whole_answer_is_one_write_and_the_same_bytes_as_two_messages() -> None:
    at_once, by_messages = FakeTransport(), FakeTransport()
    first, second = cycle(at_once), cycle(by_messages)
    headers = [(b"content-type", b"application/json"), LENGTH, (b"x-a", b"b")]

    async def send() -> None:
        await second.send({"type": "http.response.start", "status": 200, "headers": headers})
        await second.send({"type": "http.response.body", "body": b"{}", "more_body": False})

    asyncio.run(send())
    assert write_answer(first, 200, headers, b"{}")
    assert at_once.written == [b"".join(by_messages.written)]
    assert (first.response_complete, at_once.closed) == (second.response_complete, by_messages.closed) == (True, False)


@pytest.mark.parametrize("asked", [True, False], ids=["the client keeps it", "the client does not"])
@pytest.mark.parametrize("said", [True, False], ids=["the answer closes", "the answer does not"])
def test_the_connection_closes_where_either_side_says_so(asked: bool, said: bool) -> None:
    transport = FakeTransport()
    one = cycle(transport, keep_alive=asked)
    assert write_answer(one, 200, [LENGTH, *([(b"connection", b"close")] if said else [])], b"{}")
    assert transport.closed == (said or not asked)
    assert transport.written[0].count(b"connection: close") == transport.closed


@pytest.mark.parametrize("value", [b"a\r\nx-b: c", b"a\nb", b"a\rb", b"a\x00b", b"a\x7fb"])
def test_a_header_is_never_two_headers(value: bytes) -> None:
    transport = FakeTransport()
    one = cycle(transport)
    assert not write_answer(one, 200, [LENGTH, (b"x-a", value)], b"{}")
    assert (transport.written, one.response_started, one.keep_alive) == ([], False, True)


def test_what_needs_more_than_a_write_is_left_to_send() -> None:
    assert not write_answer(cycle(FakeTransport(), method="HEAD"), 200, [LENGTH], b"{}")
    slow = cycle(FakeTransport())
    slow.flow.pause_writing()
    assert not write_answer(slow, 200, [LENGTH], b"{}")


def test_nothing_is_written_to_a_client_that_has_left() -> None:
    transport = FakeTransport()
    gone = cycle(transport)
    gone.disconnected = True
    assert write_answer(gone, 200, [LENGTH], b"{}")
    assert transport.written == []


def test_a_body_is_taken_when_all_of_it_is_here_and_the_socket_is_read_on() -> None:
    transport = FakeTransport()
    one = cycle(transport)
    one.body += b"half"
    one.flow.pause_reading()
    assert take_body(one) is None
    one.body += b" and half"
    one.more_body = False
    assert take_body(one) == b"half and half"
    assert transport.reading
    one.disconnected = True
    assert take_body(one) is None


class Waiting(FakeTransport):
    """Of what waits in it, a bit is taken now and then, for so many seconds."""

    def __init__(self, taking_s: float) -> None:
        super().__init__()
        self._until = asyncio.get_running_loop().time() + taking_s
        self.aborted_at: float | None = None

    def get_write_buffer_size(self) -> int:
        return 1_000_000 - int(min(asyncio.get_running_loop().time(), self._until))

    def abort(self) -> None:
        self.aborted_at = asyncio.get_running_loop().time()


def waited_on(transport: Waiting) -> Protocol:
    """A connection by that transport."""
    config = Config("nobody:app", http=Protocol, ws="none", lifespan="off", log_config=None)
    config.load_app = lambda: None  # type: ignore[method-assign]
    config.load()
    made = Protocol(config=config, server_state=ServerState(), app_state={}, _loop=asyncio.get_running_loop())
    made.transport, made.flow = transport, FlowControl(transport)
    return made


@pytest.mark.fault("F35")
@pytest.mark.parametrize(("taking_s", "ends_s"), [(0, STALL_S), (5 * STALL_S + 1, 7 * STALL_S)])
def test_only_a_client_that_takes_nothing_for_long_is_hung_up_on(taking_s: float, ends_s: float) -> None:
    async def aborted() -> float | None:
        transport = Waiting(taking_s)
        waited_on(transport).pause_writing()
        await asyncio.sleep(20 * STALL_S)
        return transport.aborted_at

    assert jump(aborted()) == ends_s


@pytest.mark.fault("F35")
def test_one_that_has_taken_all_of_it_is_not() -> None:
    async def aborted() -> float | None:
        transport = Waiting(0)
        one = waited_on(transport)
        for _ in range(3):
            one.pause_writing()
            await asyncio.sleep(STALL_S - 1)
            one.resume_writing()
        await asyncio.sleep(2 * STALL_S)
        return transport.aborted_at

    assert jump(aborted()) is None
