"""The client's transport where things do not go well: against a fake one below it, which breaks where it is told to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Final, NamedTuple

import httpx
import httpx2
import pytest

from rivermouth import client
from rivermouth.client import resuming

pytestmark = pytest.mark.anyio

URL: Final = "http://host.example/llm/v1/chat?key=k1"
ADDRESS: Final = "/llm/resume/c1"
OURS: Final = {"x-rivermouth-resume": ADDRESS}
WHOLE: Final = b"0123456789"
both = pytest.mark.parametrize("package", [httpx, httpx2], ids=["httpx", "httpx2"])


class Step(NamedTuple):
    """One answer of the server: what comes of its body, and how that ends.  error: None: properly."""

    body: tuple[bytes, ...] = ()
    error: str | None = None
    status: int = 200
    headers: dict[str, str] = OURS
    refuses: bool = False


class FakeTransport:
    """Answers one request after the other as its steps say; sync and async."""

    def __init__(self, package: Any, *steps: Step) -> None:
        self._package = package
        self._steps = iter(steps)
        self.asked: list[Any] = []
        self.closed = 0

    def answer(self, request: Any, stream: type) -> Any:
        self.asked.append(request)
        step = next(self._steps)
        if step.refuses:
            raise self._package.ConnectError("no connection")
        return self._package.Response(step.status, headers=step.headers, stream=stream(self, step))

    def failure(self, name: str) -> Exception:
        error: Exception = getattr(self._package, name)("lost")
        return error


def sync_of(package: Any, *steps: Step) -> Any:
    class Body(package.SyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, transport: FakeTransport, step: Step) -> None:
            self.transport, self.step = transport, step

        def __iter__(self) -> Iterator[bytes]:
            yield from self.step.body
            if self.step.error is not None:
                raise self.transport.failure(self.step.error)

        def close(self) -> None:
            self.transport.closed += 1

    class Transport(FakeTransport, package.BaseTransport):  # type: ignore[misc, name-defined]
        def handle_request(self, request: Any) -> Any:
            return self.answer(request, Body)

        def close(self) -> None:
            """Nothing is open."""

    return Transport(package, *steps)


def async_of(package: Any, *steps: Step) -> Any:
    class Body(package.AsyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, transport: FakeTransport, step: Step) -> None:
            self.transport, self.step = transport, step

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for data in self.step.body:
                yield data
            if self.step.error is not None:
                raise self.transport.failure(self.step.error)

        async def aclose(self) -> None:
            self.transport.closed += 1

    class Transport(FakeTransport, package.AsyncBaseTransport):  # type: ignore[misc, name-defined]
        async def handle_async_request(self, request: Any) -> Any:
            return self.answer(request, Body)

        async def aclose(self) -> None:
            """Nothing is open."""

    return Transport(package, *steps)


class Read(NamedTuple):
    body: bytes
    error: str | None
    transport: FakeTransport


async def read(package: Any, steps: tuple[Step, ...], *, asynchronous: bool, most: int = 1000, **terms: Any) -> Read:
    """What a client reads of a POST, at most so many pieces."""
    got: list[bytes] = []
    error: str | None = None
    headers = {"authorization": "Bearer k", "content-type": "application/json"}
    below = (async_of if asynchronous else sync_of)(package, *steps)
    try:
        if asynchronous:
            async with (
                package.AsyncClient(transport=resuming(below, **terms)) as http,
                http.stream("POST", URL, content=b"{}", headers=headers) as answer,
            ):
                async for data in answer.aiter_raw():
                    got.append(data)
                    if len(got) >= most:
                        break
        else:
            with (
                package.Client(transport=resuming(below, **terms)) as http,
                http.stream("POST", URL, content=b"{}", headers=headers) as answer,
            ):
                for data in answer.iter_raw():
                    got.append(data)
                    if len(got) >= most:
                        break
    except package.TransportError as lost:
        error = type(lost).__name__
    return Read(b"".join(got), error, below)


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_WAIT_S", 0.0001)


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def asynchronous(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


CUT: Final = Step((b"01", b"234"), "ReadError")
REST: Final = Step((b"567", b"89"))


@both
async def test_the_rest_is_asked_for_with_the_same_key_at_the_address(package: Any, asynchronous: bool) -> None:
    got = await read(package, (CUT, REST), asynchronous=asynchronous, grace_s=7)
    assert (got.body, got.error) == (WHOLE, None)
    call, rest = got.transport.asked
    assert call.headers["x-rivermouth-resumable"] == "1; grace=7"
    assert call.headers["accept-encoding"] == rest.headers["accept-encoding"] == "identity"
    assert (rest.method, str(rest.url)) == ("GET", "http://host.example/llm/resume/c1?key=k1&after=5")
    assert rest.headers["authorization"] == "Bearer k"
    assert not {"content-type", "content-length", "x-rivermouth-resumable"} & set(rest.headers)
    assert got.transport.closed == 2, "the body that broke, and the rest of it"


@both
async def test_it_is_tried_again_as_long_as_that_may_help(package: Any, asynchronous: bool) -> None:
    steps = (
        CUT,
        Step(refuses=True),
        Step(status=503, headers={}),
        Step(status=502, headers={}),
        Step((b"5",), "RemoteProtocolError"),
        Step((), "ReadTimeout"),
        Step(refuses=True),
        Step((b"6789",)),
    )
    got = await read(package, steps, asynchronous=asynchronous)
    assert (got.body, got.error) == (WHOLE, None)
    assert [str(r.url.params["after"]) for r in got.transport.asked[1:]] == ["5", "5", "5", "5", "6", "6", "6"]


@both
@pytest.mark.parametrize("status", [400, 401, 404, 410])
async def test_a_rest_that_is_not_there_is_the_error_that_it_was(package: Any, asynchronous: bool, status: int) -> None:
    got = await read(package, (CUT, Step(status=status, headers={})), asynchronous=asynchronous)
    assert (got.body, got.error) == (b"01234", "ReadError")
    assert got.transport.closed >= 2


@both
async def test_so_many_tries_and_no_more(package: Any, asynchronous: bool) -> None:
    got = await read(package, (CUT, *[Step(refuses=True)] * 9), asynchronous=asynchronous, tries=3)
    assert (got.body, got.error, len(got.transport.asked)) == (b"01234", "ReadError", 4)


@both
async def test_a_silence_is_waited_for_twice_and_not_for_ever(package: Any, asynchronous: bool) -> None:
    """Each is as long as the client's own limit."""
    silence = Step((), "ReadTimeout")
    got = await read(package, (Step((b"01",), "ReadTimeout"), silence, REST), asynchronous=asynchronous)
    assert (got.body, got.error, len(got.transport.asked)) == (b"01", "ReadTimeout", 2)


@both
async def test_an_error_of_the_call_is_resumed_and_none_of_the_address(package: Any, asynchronous: bool) -> None:
    """The answer may be a 503; then that is what the rest must have too."""
    broken = Step((b"01234",), "ReadError", status=503)
    got = await read(
        package, (broken, Step(status=503, headers={}), Step((b"56789",), status=503)), asynchronous=asynchronous
    )
    assert (got.body, got.error) == (WHOLE, None)


@both
@pytest.mark.parametrize("headers", [{}, {**OURS, "content-encoding": "gzip"}], ids=["plain", "compressed"])
async def test_what_cannot_be_resumed_breaks(package: Any, asynchronous: bool, headers: dict[str, str]) -> None:
    got = await read(package, (Step((b"01",), "ReadError", headers=headers), REST), asynchronous=asynchronous)
    assert (got.body, got.error, len(got.transport.asked)) == (b"01", "ReadError", 1)


@both
@pytest.mark.parametrize("cancels", [False, True])
async def test_who_leaves_early_may_cancel(package: Any, asynchronous: bool, cancels: bool) -> None:
    steps = (Step((b"01", b"23", b"45")), Step(status=202, headers={}))
    got = await read(package, steps, asynchronous=asynchronous, most=1, cancels=cancels)
    assert got.body == b"01"
    asked = [(r.method, r.url.path) for r in got.transport.asked[1:]]
    assert asked == ([("POST", "/llm/platform/v1/calls/c1/cancel")] if cancels else [])
    assert got.transport.closed == (2 if cancels else 1)


@both
async def test_who_reads_to_the_end_cancels_nothing(package: Any, asynchronous: bool) -> None:
    got = await read(package, (Step((WHOLE,)),), asynchronous=asynchronous, cancels=True)
    assert (got.body, len(got.transport.asked)) == (WHOLE, 1)


@both
async def test_a_cancel_that_fails_is_nobodys_error(package: Any, asynchronous: bool) -> None:
    steps = (Step((b"01", b"23")), Step(refuses=True))
    got = await read(package, steps, asynchronous=asynchronous, most=1, cancels=True)
    assert (got.body, got.error) == (b"01", None)


@both
async def test_a_get_and_a_call_that_says_how_are_left_alone(package: Any) -> None:
    below = sync_of(package, Step((WHOLE,)), Step((WHOLE,)))
    with package.Client(transport=resuming(below)) as http:
        http.get(URL)
        http.post(URL, headers={"x-rivermouth-resumable": "0"})
    assert [r.headers.get("x-rivermouth-resumable") for r in below.asked] == [None, "0"]


async def test_importing_it_imports_nothing_of_the_server() -> None:
    source = client.__file__
    assert source is not None
    with open(source, encoding="utf-8") as file:
        assert "rivermouth." not in "".join(line for line in file if line.startswith(("import", "from")))
