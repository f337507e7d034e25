"""The lean client on real sockets, on both loops: every shape of an answer, every way in which one ends."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.providers.client import Response
from rivermouth.providers.lean import LeanClient
from rivermouth.providers.lean.connection import HEAD_CAP_BYTES, HIGH_BYTES
from rivermouth.providers.lean.inflate import INFLATED_CAP_BYTES
from tests.engine.test_clocks import deaf
from tests.engine.tls import self_signed
from tests.fakes import JSON, SSE, Asked, FakeUpstream

pytestmark = pytest.mark.anyio

WAIT_S: Final = 10.0


@pytest.fixture(
    scope="module", params=[("asyncio", {}), ("asyncio", {"use_uvloop": True})], ids=["asyncio loop", "uvloop"]
)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    """The product runs on uvloop, whose transports are asyncio's in all but their base class."""
    return request.param


@asynccontextmanager
async def lean(url: str, *, ca_file: str | None = None, connect_s: float = 5.0) -> AsyncIterator[LeanClient]:
    client = LeanClient("lab", url, connect_s=connect_s, ca_file=ca_file)
    try:
        yield client
    finally:
        await client.close()


async def ask(client: LeanClient, upstream: FakeUpstream) -> tuple[asyncio.Task[Response], Asked]:
    """A request on its way, and how the upstream sees it."""
    asking = asyncio.ensure_future(client.open("POST", upstream.url + "/p", {"x-a": "b"}, b"{}"))
    return asking, await within(upstream.asked())


async def within(work: Awaitable[Any]) -> Any:
    async with asyncio.timeout(WAIT_S):
        return await work


async def body_of(response: Response, *, complete: bool = True) -> bytes:
    """All of the body, to its proper end."""
    pieces = []
    while (piece := await within(response.read())) is not None:
        assert piece
        pieces.append(piece)
    await response.close(complete=complete)
    return b"".join(pieces)


async def until_cut(response: Response) -> tuple[bytes, ApiError]:
    """What was delivered before the failure, and the failure."""
    pieces = []
    try:
        while (piece := await within(response.read())) is not None:
            pieces.append(piece)
    except ApiError as error:
        await response.close(complete=False)
        return b"".join(pieces), error
    raise AssertionError(f"the answer ended well: {b''.join(pieces)!r}")


async def failure(asking: Awaitable[Any]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await within(asking)
    assert caught.value.provider == "lab"
    return caught.value


Acts = Callable[[Asked], Awaitable[None]]


async def answered(act: Acts) -> tuple[bytes, int, int]:
    """Body and status of one answer, and how many connections a second request needed."""
    async with FakeUpstream() as upstream, lean(upstream.url) as client:
        asking, asked = await ask(client, upstream)
        await act(asked)
        response = await within(asking)
        body = await body_of(response)
        again, asked = await ask(client, upstream)
        await asked.answer(200, JSON, b"again")
        assert await body_of(await within(again)) == b"again"
        return body, response.status, upstream.connections


def raw(*pieces: bytes, cut: bool = False) -> Acts:
    async def act(asked: Asked) -> None:
        for piece in pieces:
            await asked.raw(piece)
        if cut:
            asked.cut()

    return act


OK: Final = b"HTTP/1.1 200 OK\r\n"
HI: Final = b"content-length: 2\r\n\r\nhi"
CHUNKED: Final = b"transfer-encoding: chunked\r\n\r\n"


class TestAnswers:
    @pytest.mark.parametrize(
        ("act", "body", "kept"),
        [
            (raw(OK + HI), b"hi", True),
            (raw(OK, b"content-", b"length: 2\r\n\r", b"\nh", b"i"), b"hi", True),
            (raw(b"HTTP/1.1 100 Continue\r\n\r\n" + OK + HI), b"hi", True),
            (raw(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early\r\nlink: </a>\r\n\r\n", OK + HI), b"hi", True),
            (raw(OK + CHUNKED + b"2\r\nhi\r\n1;why=so\r\n!\r\n0\r\n\r\n"), b"hi!", True),
            (raw(OK + CHUNKED + b"2\r\nhi\r\n0\r\nx-sum: 1\r\n\r\n"), b"hi", True),
            (raw(OK + b"connection: close\r\n" + HI), b"hi", False),
            (raw(OK + HI, cut=True), b"hi", False),
            (raw(OK + b"connection: close\r\n\r\nall th", b"at came", cut=True), b"all that came", False),
            (raw(OK + b"\r\nall that came", cut=True), b"all that came", False),
            (raw(b"HTTP/1.0 200 OK\r\n\r\nold", cut=True), b"old", False),
            (raw(OK + b"content-length: 0\r\n\r\n"), b"", True),
            (raw(b"HTTP/1.1 204 No\r\n\r\n"), b"", True),
            (raw(b"HTTP/1.1 304 Same\r\ncontent-length: 7\r\n\r\n"), b"", True),
        ],
    )
    async def test_its_end_is_found_and_the_connection_kept_if_it_can_be(
        self, act: Acts, body: bytes, kept: bool
    ) -> None:
        got, _, connections = await answered(act)
        assert got == body
        assert connections == (1 if kept else 2)

    async def test_headers_are_lower_case_and_trailers_are_none(self) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.raw(b"HTTP/1.1 429 Too Many\r\nRetry-After: 3\r\nTransfer-Encoding: chunked\r\n\r\n")
            response = await within(asking)
            assert (response.status, response.headers["retry-after"]) == (429, "3")
            await asked.raw(b"0\r\nretry-after: 9\r\n\r\n")
            assert await body_of(response) == b""
            assert response.headers["retry-after"] == "3"

    async def test_each_piece_is_delivered_when_it_comes(self) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.head(200, SSE)
            response = await within(asking)
            for piece in (b"a", b"b" * 9, b"c"):
                reading = asyncio.ensure_future(response.read())
                await asked.send(piece)
                assert await within(reading) == piece
            await asked.end(b"d")
            assert await body_of(response) == b"d"

    async def test_the_request_is_what_was_asked_for_and_nothing_more(self) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            url = upstream.url.replace("://", "://me:secret@") + "/a%20b?c=d"
            asking = asyncio.ensure_future(client.open("GET", url, {"accept": "x"}, None))
            asked = await within(upstream.asked())
            assert (asked.method, asked.path, asked.body) == ("GET", "/a%20b?c=d", b"")
            assert asked.headers == {"host": upstream.url.removeprefix("http://"), "accept": "x"}
            await asked.answer(200, JSON, b"x")
            await body_of(await within(asking))

    @pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "a\0b"])
    async def test_a_header_cannot_bring_another(self, value: str) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            error = await failure(client.open("GET", upstream.url, {"x": value}, None))
            assert error.kind is Kind.INTERNAL
            assert upstream.connections == 0


class Taker:
    """Takes what arrives, until `stop` has come; then says that it wants no more, or raises."""

    def __init__(self, stop: bytes = b"never", error: Exception | None = None) -> None:
        self.taken: list[bytes] = []
        self._stop = stop
        self._error = error
        self._more = asyncio.Event()

    def __call__(self, data: bytes) -> bool:
        self.taken.append(data)
        self._more.set()
        if data == self._stop and self._error is not None:
            raise self._error
        return data != self._stop

    async def until(self, *taken: bytes) -> None:
        while self.taken != list(taken):
            self._more.clear()
            await within(self._more.wait())


async def waiting(work: Coroutine[Any, Any, bytes | None]) -> asyncio.Task[bytes | None]:
    """A reader that has come to wait: one turn of the loop is enough."""
    task = asyncio.ensure_future(work)
    await asyncio.sleep(0)
    return task


class TestOnward:
    """What arrives while somebody waits goes on without waking him."""

    async def test_it_takes_all_until_it_wants_no_more_and_nothing_is_lost_or_repeated(self) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.head(200, SSE)
            response = await within(asking)
            takes = Taker(stop=b"c")
            reading = await waiting(response.read(takes))
            await asked.send(b"a")
            await takes.until(b"a")
            await asked.send(b"b")
            await takes.until(b"a", b"b")
            assert not reading.done()
            await asked.send(b"c")
            await takes.until(b"a", b"b", b"c")
            await asked.send(b"d")  # perhaps before the reader has woken
            assert await within(reading) == b""
            assert await within(response.read()) == b"d"
            await asked.end(b"e")
            assert await body_of(response) == b"e"
            assert takes.taken == [b"a", b"b", b"c"]

    async def test_what_lies_there_already_is_read(self) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.raw(OK + HI)
            response = await within(asking)
            takes = Taker()
            assert await within(response.read(takes)) == b"hi"
            assert await within(response.read(takes)) is None
            assert takes.taken == []

    async def test_the_end_and_a_cut_are_told_after_what_came_with_them(self) -> None:
        for ends in (True, False):
            async with FakeUpstream() as upstream, lean(upstream.url) as client:
                asking, asked = await ask(client, upstream)
                await asked.head(200, SSE)
                response = await within(asking)
                takes = Taker()
                reading = await waiting(response.read(takes))
                if ends:
                    await asked.end(b"last")
                    assert await within(reading) is None
                else:
                    await asked.send(b"last")
                    asked.cut()
                    assert (await failure(reading)).kind is Kind.TRUNCATED
                assert takes.taken == [b"last"]

    async def test_what_it_raises_is_raised_where_the_reader_waits(self) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.head(200, SSE)
            response = await within(asking)
            reading = await waiting(response.read(Taker(b"bad", ZeroDivisionError("mine"))))
            await asked.send(b"bad")
            with pytest.raises(ZeroDivisionError, match="mine"):
                await within(reading)
            await asked.end(b"rest")
            assert await body_of(response) == b"rest"

    async def test_who_was_cancelled_gets_nothing_any_more(self) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.head(200, SSE)
            response = await within(asking)
            takes = Taker()
            reading = await waiting(response.read(takes))
            await asked.send(b"a")
            await takes.until(b"a")
            reading.cancel()
            await asyncio.wait({reading})
            await asked.send(b"b")
            assert await within(response.read()) == b"b"
            assert takes.taken == [b"a"]


class TestFailures:
    @pytest.mark.parametrize(
        ("act", "kind"),
        [
            (raw(cut=True), Kind.NETWORK),
            (raw(b"HTTP/1.1 2", cut=True), Kind.NETWORK),
            (raw(OK + b"content-le", cut=True), Kind.NETWORK),
            (raw(b"SSH-2.0-OpenSSH_9.6\r\n"), Kind.UPSTREAM),
            (raw(b"HTTP/1.1 abc OK\r\n\r\n"), Kind.UPSTREAM),
            (raw(OK + b"content-length: many\r\n\r\n"), Kind.UPSTREAM),
            (raw(b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: other\r\n\r\nother words"), Kind.UPSTREAM),
            (raw(OK + b"".join(b"x-%d: %b\r\n" % (n, b"y" * 1000) for n in range(80))), Kind.UPSTREAM),
            (raw(OK + b"x-endless: " + b"y" * (HEAD_CAP_BYTES + 1)), Kind.UPSTREAM),
            (raw(OK + b"y" * (HEAD_CAP_BYTES + 1)), Kind.UPSTREAM),
            (raw(OK, *([b"y" * 1000] * 100)), Kind.UPSTREAM),
            (raw(*([b"HTTP/1.1 100 Continue\r\nx: y\r\n\r\n" * 100] * 50)), Kind.UPSTREAM),
        ],
    )
    @pytest.mark.fault("F35")
    async def test_what_is_no_answer(self, act: Acts, kind: Kind) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            with contextlib.suppress(ConnectionError):  # the client may hang up before the end
                await act(asked)
            error = await failure(asking)
            assert error.kind is kind
            assert upstream.connections == 1, "a request is not repeated on a connection of its own"
            await within(asked.gone())
            assert not client._open
            assert not client._pool

    @pytest.mark.fault("F10")
    @pytest.mark.parametrize("how", ["cut", "reset"])
    @pytest.mark.parametrize("head", [b"content-length: 9\r\n\r\nhi", CHUNKED + b"2\r\nhi\r\n", CHUNKED + b"9\r\nhi"])
    async def test_a_cut_body_is_delivered_up_to_the_cut(self, head: bytes, how: str) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.raw(OK + head)
            response = await within(asking)
            said = await within(response.read())
            asked.cut() if how == "cut" else asked.reset()
            rest, error = await until_cut(response)
            assert (said + rest, error.kind, error.provider) == (b"hi", Kind.TRUNCATED, "lab")

    async def test_a_cut_that_came_with_the_last_bytes_is_told_after_them(self) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.raw(OK + CHUNKED + b"2\r\nhi\r\n")
            asked.cut()
            response = await within(asking)
            await within(asked.gone())
            said, error = await until_cut(response)
            assert (said, error.kind) == (b"hi", Kind.TRUNCATED)

    @pytest.mark.fault("F35")
    async def test_a_trailer_without_end(self) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.raw(OK + CHUNKED + b"2\r\nhi\r\n0\r\nx-endless: ")
            response = await within(asking)
            with contextlib.suppress(ConnectionError):
                for _ in range(100):
                    await asked.raw(b"y" * 1000)
            said, error = await until_cut(response)
            assert (said, error.kind) == (b"hi", Kind.UPSTREAM)

    async def test_a_body_in_the_smallest_pieces_is_no_head_without_end(self) -> None:
        """The bytes between the pieces are many more than a head may have."""
        count = HEAD_CAP_BYTES // 4
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.head(200, SSE)
            for _ in range(count // 1000):
                await asked.raw(b"1;name=value\r\nx\r\n" * 1000)
            await asked.end()
            assert await body_of(await within(asking)) == b"x" * (count // 1000 * 1000)

    async def test_a_body_that_stops_being_http(self) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.raw(OK + CHUNKED + b"2\r\nhi\r\nwhat\r\n")
            said, error = await until_cut(await within(asking))
            assert (said, error.kind) == (b"hi", Kind.UPSTREAM)
            await within(asked.gone())

    @pytest.mark.parametrize("more", [OK + HI, b"and more", OK + CHUNKED + b"3\r\nyou\r\n0\r\n\r\n"])
    async def test_an_answer_that_nobody_asked_for_is_not_part_of_this_one(self, more: bytes) -> None:
        """Neither of this request nor of the next one on that connection."""
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.raw(OK + HI + more)
            response = await within(asking)
            assert await body_of(response) == b"hi"
            assert response.headers == {"content-length": "2"}
            again, asked = await ask(client, upstream)
            await asked.answer(200, JSON, b"again")
            assert await body_of(await within(again)) == b"again"
            assert upstream.connections == 2

    async def test_nobody_listens(self) -> None:
        async with FakeUpstream() as upstream:
            url = upstream.url
        async with lean(url) as client:
            error = await failure(client.open("GET", url, {}, None))
            assert error.kind is Kind.NETWORK
            assert "refused" in error.message
            assert "127.0.0.1" not in error.message


class TestKeeping:
    async def test_one_that_the_upstream_closed_meanwhile_is_not_used(self) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.answer(200, JSON, b"x")
            await body_of(await within(asking))
            asked.cut()
            await within(asked.gone())
            again, asked = await ask(client, upstream)
            await asked.answer(200, JSON, b"y")
            assert await body_of(await within(again)) == b"y"
            assert upstream.connections == 2

    async def test_one_that_closes_instead_of_answering_is_replaced_once(self) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.answer(200, JSON, b"x")
            await body_of(await within(asking))
            again, asked = await ask(client, upstream)
            asked.cut()
            asked = await within(upstream.asked())
            asked.cut()
            assert (await failure(again)).kind is Kind.NETWORK
            assert upstream.connections == 2

    async def test_one_that_had_begun_to_answer_is_not(self) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.answer(200, JSON, b"x")
            await body_of(await within(asking))
            again, asked = await ask(client, upstream)
            await asked.raw(b"HTTP/1.1 2")
            asked.cut()
            assert (await failure(again)).kind is Kind.NETWORK
            assert upstream.connections == 1

    async def test_one_that_speaks_while_nobody_asks_is_dropped(self) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.answer(200, JSON, b"x")
            await body_of(await within(asking))
            await asked.raw(b"HTTP/1.1 408 Too Late\r\ncontent-length: 0\r\n\r\n")
            await within(asked.gone())
            assert not client._pool

    async def test_calls_at_the_same_time_have_connections_of_their_own_and_keep_them(self) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            for _ in range(2):
                calls = [await ask(client, upstream) for _ in range(3)]
                for number, (_, asked) in enumerate(calls):
                    await asked.answer(200, JSON, b"%d" % number)
                assert [await body_of(await within(asking)) for asking, _ in calls] == [b"0", b"1", b"2"]
            assert upstream.connections == 3

    async def test_the_rest_of_a_finished_answer_is_taken_and_the_connection_kept(self) -> None:
        """A stream is over with its terminator; the body's own end comes after it."""
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.head(200, SSE)
            await asked.send(b"data: [DONE]\n\n")
            response = await within(asking)
            await within(response.read())
            closing = asyncio.ensure_future(response.close(complete=True))
            await asked.end()
            await within(closing)
            assert len(client._pool) == 1

    async def test_but_not_for_ever(self) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.head(200, SSE)
            await asked.send(b"data: [DONE]\n\n")
            response = await within(asking)
            await within(response.read())
            await within(response.close(complete=True))
            await within(asked.gone())
            assert not client._pool


@pytest.mark.fault("F31", "F32")
class TestLeaving:
    async def test_closing_in_the_middle_closes_the_socket(self) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.head(200, SSE)
            await asked.send(b"x")
            response = await within(asking)
            await response.close(complete=False)
            await response.close(complete=False)
            await within(asked.gone())
            assert not client._open

    async def test_a_cancelled_read_loses_nothing_and_closes_nothing(self) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.head(200, SSE)
            response = await within(asking)
            reading = asyncio.ensure_future(response.read())
            await asyncio.sleep(0)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            await asked.end(b"still here")
            assert await body_of(response) == b"still here"

    async def test_a_cancelled_request_closes_its_socket(self) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await within(asked.gone())
            assert not client._open

    async def test_a_cancelled_connect_leaves_no_socket(self) -> None:
        with deaf() as address:
            url = f"http://{address}"
            async with lean(url) as client:
                before = sockets()
                for _ in range(5):
                    connecting = asyncio.ensure_future(client.open("GET", url, {}, None))
                    while sockets() == before:
                        await asyncio.sleep(0)
                    connecting.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await connecting
                    async with asyncio.timeout(WAIT_S):
                        while sockets() != before:
                            await asyncio.sleep(0)

    async def test_the_connect_clock_leaves_no_socket_either(self) -> None:
        with deaf() as address:
            url = f"http://{address}"
            async with lean(url, connect_s=0.05) as client:
                before = sockets()
                error = await failure(client.open("GET", url, {}, None))
                assert (error.kind, error.clock) == (Kind.TIMEOUT, "connect")
                async with asyncio.timeout(WAIT_S):
                    while sockets() != before:
                        await asyncio.sleep(0)

    async def test_closing_the_client_closes_everything(self) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            calls = [await ask(client, upstream) for _ in range(2)]
            await calls[0][1].answer(200, JSON, b"x")
            await body_of(await within(calls[0][0]))
            await calls[1][1].head(200, SSE)
            response = await within(calls[1][0])
            await client.close()
            for _, asked in calls:
                await within(asked.gone())
            with pytest.raises(ApiError):
                await response.read()


def sockets() -> int:
    """Sockets that this process has open."""
    links = (os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.lexists(fd_path(fd)))
    return sum(link.startswith("socket:") for link in links)


def fd_path(fd: str) -> str:
    return f"/proc/self/fd/{fd}"


@pytest.mark.fault("F35")
class TestFlow:
    async def test_an_answer_that_is_not_read_pauses_the_upstream(self) -> None:
        piece, pieces = b"x" * 60_000, 300
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.head(200, SSE)
            response = await within(asking)
            connection = next(iter(client._open))

            async def flood() -> None:
                for _ in range(pieces):
                    await asked.send(piece)
                await asked.end()

            flooding = asyncio.ensure_future(flood())
            async with asyncio.timeout(WAIT_S):
                while not connection._paused:
                    await asyncio.sleep(0)
            held = connection._size
            assert HIGH_BYTES < held < 4 * HIGH_BYTES
            for _ in range(100):
                await asyncio.sleep(0)
            assert connection._size == held, "nothing is read while it is paused"
            assert not flooding.done()
            assert len(await body_of(response)) == len(piece) * pieces
            await flooding
            assert len(client._pool) == 1


def gzipped(data: bytes) -> bytes:
    """The same bytes each time: gzip would put the hour in them."""
    return gzip.compress(data, mtime=0)


class TestCompression:
    TEXT: Final = ('data: {"say": "hello"}\n\n' * 500).encode()

    @pytest.mark.parametrize(
        ("encoding", "data"),
        [
            ("gzip", gzipped(TEXT)),
            ("x-gzip", gzipped(TEXT)),
            ("GZIP", gzipped(TEXT)),
            ("deflate", zlib.compress(TEXT)),
            ("identity", TEXT),
            ("gzip", gzipped(TEXT[:100]) + gzipped(TEXT[100:])),
        ],
        ids=["gzip", "x-gzip", "GZIP", "deflate", "identity", "two members"],
    )
    async def test_it_is_undone(self, encoding: str, data: bytes) -> None:
        for cut in (len(data), 1, len(data) // 2):
            pieces = [data[i : i + max(cut, 1)] for i in range(0, min(len(data), 400), max(cut, 1))]
            pieces = [*pieces, data[sum(map(len, pieces)) :]]
            async with FakeUpstream() as upstream, lean(upstream.url) as client:
                asking, asked = await ask(client, upstream)
                await asked.head(200, SSE, content_encoding=encoding)
                for piece in filter(None, pieces):
                    await asked.send(piece)
                await asked.end()
                assert await body_of(await within(asking)) == self.TEXT
                assert len(client._pool) == 1

    async def test_a_flush_is_delivered_at_once(self) -> None:
        engine = zlib.compressobj(wbits=31)
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.head(200, SSE, content_encoding="gzip")
            response = await within(asking)
            for text in (b"one", b"two"):
                await asked.send(engine.compress(text) + engine.flush(zlib.Z_SYNC_FLUSH))
                assert await within(response.read()) == text
            await asked.end(engine.flush())
            assert await body_of(response) == b""

    @pytest.mark.fault("F35")
    async def test_a_bomb_comes_in_bounded_pieces(self) -> None:
        size = 64 * INFLATED_CAP_BYTES
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.answer(200, SSE, gzipped(b"\0" * size), content_encoding="gzip")
            response = await within(asking)
            total = 0
            while (piece := await within(response.read())) is not None:
                assert len(piece) <= INFLATED_CAP_BYTES
                total += len(piece)
            assert total == size
            await response.close(complete=True)

    @pytest.mark.parametrize(
        ("encoding", "data"),
        [
            ("gzip", b"this is not gzip"),
            ("gzip", gzipped(TEXT)[:-40]),
            ("gzip", gzipped(TEXT)[:-4]),
            ("gzip", gzipped(TEXT) + b"and more"),
            ("deflate", b"nor deflate"),
            ("br", b"\x0b\x02\x80hello\x03"),
            ("gzip, gzip", gzipped(gzipped(TEXT))),
        ],
        ids=["no gzip", "cut", "cut in its sum", "rubbish behind it", "no deflate", "brotli", "twice"],
    )
    @pytest.mark.fault("F10")
    async def test_broken_or_unknown_it_is_a_failure(self, encoding: str, data: bytes) -> None:
        async with FakeUpstream() as upstream, lean(upstream.url) as client:
            asking, asked = await ask(client, upstream)
            await asked.answer(200, SSE, data, content_encoding=encoding)
            said, error = await until_cut(await within(asking))
            assert self.TEXT.startswith(said)
            assert error.kind is Kind.UPSTREAM
            assert "compression" in error.message


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return self_signed(tmp_path_factory.mktemp("tls"))


@asynccontextmanager
async def secure(certificate: tuple[Path, Path]) -> AsyncIterator[tuple[str, list[int]]]:
    """An upstream with TLS that says hi, cuts /cut in the middle, and closes /all after it; counts its connections."""
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"GET /cut"):
                    writer.write(OK + b"content-length: 9\r\n\r\nhi")
                    break
                if head.startswith(b"GET /all"):
                    writer.write(OK + b"connection: close\r\n\r\nhi")
                    break
                writer.write(OK + HI)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", connections
    finally:
        server.close()


class TestTls:
    async def test_an_authority_of_ones_own_is_trusted_and_the_connection_kept(
        self, certificate: tuple[Path, Path]
    ) -> None:
        async with secure(certificate) as (url, connections), lean(url, ca_file=str(certificate[0])) as client:
            for path in ("/", "/", "/all"):
                assert await body_of(await within(client.open("GET", url + path, {}, None))) == b"hi"
            assert len(connections) == 1

    async def test_a_cut_is_one_under_tls_too(self, certificate: tuple[Path, Path]) -> None:
        async with secure(certificate) as (url, _), lean(url, ca_file=str(certificate[0])) as client:
            said, error = await until_cut(await within(client.open("GET", url + "/cut", {}, None)))
            assert (said, error.kind) == (b"hi", Kind.TRUNCATED)

    async def test_any_other_authority_is_not_trusted(self, certificate: tuple[Path, Path]) -> None:
        async with secure(certificate) as (url, _), lean(url) as client:
            error = await failure(client.open("GET", url, {}, None))
            assert error.kind is Kind.NETWORK
            assert "certificate" in error.message

    async def test_a_name_that_the_certificate_does_not_have_is_not_trusted(
        self, certificate: tuple[Path, Path]
    ) -> None:
        async with secure(certificate) as (url, _):
            url = url.replace("127.0.0.1", "localhost")
            async with lean(url, ca_file=str(certificate[0])) as client:
                error = await failure(client.open("GET", url, {}, None))
                assert "certificate" in error.message

    async def test_an_upstream_without_tls_is_no_such_upstream(self) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(100)
            writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            async with lean(url) as client:
                error = await failure(client.open("GET", url, {}, None))
                assert (error.kind, error.message) == (Kind.NETWORK, "no TLS connection to the upstream")
        finally:
            server.close()
