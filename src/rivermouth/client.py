"""A client's side of resumable calls: a lost connection goes on where it was, and whoever reads does not notice.

    http = httpx.Client(transport=resuming(httpx.HTTPTransport()))        AsyncClient, AsyncHTTPTransport as well
    client = openai.OpenAI(base_url="http://127.0.0.1:8080/v1", http_client=http)

It is a transport around another one, of httpx or of httpx2, so every SDK takes it that takes a client of one of these.
Each POST asks for a resumable call.  Where the answer says at which address it can be resumed, its body is counted, and
when the connection breaks, or the time for a read runs out, the rest is asked for there, with the same key.

What is counted are bytes of the wire, so nobody between may compress them: it asks for `identity`.

Nothing of the server is imported here.  The file stands alone: it may be copied.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

__all__ = ["resuming"]

ASKED: Final = "x-rivermouth-resumable"
ADDRESS: Final = "x-rivermouth-resume"
PLACE: Final = "/resume/"
PASSING: Final = frozenset({429, 500, 502, 503, 504})
"""Statuses after which it is worth to ask again, where they are not those of the answer itself."""
OF_THE_BODY: Final = ("content-length", "content-type", "content-encoding", "transfer-encoding", "expect", ASKED)
"""Headers of the call that a request for its rest does not have."""
SILENCES: Final = 1
"""How often the time for a read may run out without a byte between: each is as long as the client's own limit."""
FIRST_WAIT_S: Final = 0.1
LONGEST_WAIT_S: Final = 5.0


def resuming(transport: Any, *, grace_s: float = 30.0, tries: int = 8, cancels: bool = False) -> Any:
    """The transport, with resumption.

    grace_s: how long the server goes on without us; it may say less.  tries: without a byte between them.
    cancels: who closes a stream before its end has its call cancelled at once, by one more request; else the grace ends
    it.  SDKs close early too when they have seen the terminator, so this costs them a request for each stream.
    """
    return Resuming(transport, _Terms(f"1; grace={grace_s:g}", tries, cancels))


class _Terms:
    def __init__(self, wish: str, tries: int, cancels: bool) -> None:
        self.wish = wish
        self.tries = tries
        self.cancels = cancels


class Resuming:
    """A transport: sync, async, or both, as the inner one is."""

    def __init__(self, inner: Any, terms: _Terms) -> None:
        self._inner = inner
        self._terms = terms

    def handle_request(self, request: Any) -> Any:
        _ask(request, self._terms)
        response = self._inner.handle_request(request)
        if _resumable(response):
            response.stream = _streams(_package(response))[0](self._inner, _Course(request, response, self._terms))
        return response

    async def handle_async_request(self, request: Any) -> Any:
        _ask(request, self._terms)
        response = await self._inner.handle_async_request(request)
        if _resumable(response):
            response.stream = _streams(_package(response))[1](self._inner, _Course(request, response, self._terms))
        return response

    def close(self) -> None:
        self._inner.close()

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __enter__(self) -> Resuming:
        self._inner.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._inner.__exit__(*error)

    async def __aenter__(self) -> Resuming:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._inner.__aexit__(*error)


class _Course:
    """How far an answer has come, and what is to be done when it stops.  Does no I/O.

    stream: what is read now.  over: to its end.  refused: the server does not have the rest.
    """

    def __init__(self, request: Any, response: Any, terms: _Terms) -> None:
        self.stream = response.stream
        self.over = False
        self.refused = False
        self._request = request
        self._address = response.headers[ADDRESS]
        self._status = response.status_code
        self._package = _package(response)
        self._terms = terms
        self._received = 0
        self._failed = self._silent = 0

    @property
    def lost(self) -> type[Exception]:
        """What says that a connection is lost."""
        error: type[Exception] = self._package.TransportError
        return error

    def got(self, data: bytes) -> None:
        self._received += len(data)
        self._failed = self._silent = 0

    def broke(self, error: Exception) -> None:
        """The body did not come to its end."""
        self._silent += isinstance(error, self._package.TimeoutException)

    def wait_s(self, error: Exception) -> float:
        """How long before the next try.  Raises the error where there is none."""
        if self._failed >= self._terms.tries or self._silent > SILENCES:
            raise error
        self._failed += 1
        return float(min(FIRST_WAIT_S * 2 ** (self._failed - 1), LONGEST_WAIT_S)) if self._failed > 1 else 0.0

    def rest(self) -> Any:
        """The request for what is not here yet."""
        return self._to("GET", self._request.url.join(self._address).copy_merge_params(self._params()))

    def cancel(self) -> Any | None:
        """The request that ends the call; None where nothing is to be ended."""
        base, _, call_id = self._address.rpartition(PLACE)
        if self.over or not self._terms.cancels:
            return None
        return self._to("POST", self._request.url.join(f"{base}/platform/v1/calls/{call_id}/cancel"))

    def takes(self, response: Any) -> bool:
        """That is the rest, and it is what is read from here on."""
        if response.headers.get(ADDRESS) == self._address and response.status_code == self._status:
            self.stream = response.stream
            return True
        self.refused = response.status_code not in PASSING
        return False

    def _params(self) -> dict[str, str]:
        """The cursor, and what the address of the call had: a key may stand there."""
        return {**dict(self._request.url.params), "after": str(self._received)}

    def _to(self, method: str, url: Any) -> Any:
        headers = [
            (name, value) for name, value in self._request.headers.raw if name.lower().decode() not in OF_THE_BODY
        ]
        return self._package.Request(method, url, headers=headers, extensions=dict(self._request.extensions))


class _Body:
    """A body that goes on."""

    def __init__(self, inner: Any, course: _Course) -> None:
        self._inner = inner
        self._course = course

    def __iter__(self) -> Iterator[bytes]:
        course = self._course
        while not course.over:
            try:
                for data in course.stream:
                    course.got(data)
                    yield data
                course.over = True
            except course.lost as error:
                self._go_on(error)

    def close(self) -> None:
        course = self._course
        course.stream.close()
        request = course.cancel()
        if request is not None:
            with suppress(course.lost):
                self._inner.handle_request(request).close()

    def _go_on(self, error: Exception) -> None:
        """Until the rest comes.  Raises the error where it does not."""
        course = self._course
        course.broke(error)
        with suppress(course.lost):
            course.stream.close()
        while True:
            time.sleep(course.wait_s(error))
            try:
                response = self._inner.handle_request(course.rest())
            except course.lost:
                continue
            if course.takes(response):
                return
            with suppress(course.lost):
                response.close()
            if course.refused:
                raise error


class _AsyncBody:
    """The same, async."""

    def __init__(self, inner: Any, course: _Course) -> None:
        self._inner = inner
        self._course = course

    async def __aiter__(self) -> AsyncIterator[bytes]:
        course = self._course
        while not course.over:
            try:
                async for data in course.stream:
                    course.got(data)
                    yield data
                course.over = True
            except course.lost as error:
                await self._go_on(error)

    async def aclose(self) -> None:
        import anyio  # httpx brings it; whoever cancels a reader must not keep it from saying so

        course = self._course
        with anyio.CancelScope(shield=True):
            await course.stream.aclose()
            request = course.cancel()
            if request is not None:
                with suppress(course.lost), anyio.move_on_after(LONGEST_WAIT_S):
                    await (await self._inner.handle_async_request(request)).aclose()

    async def _go_on(self, error: Exception) -> None:
        import anyio

        course = self._course
        course.broke(error)
        with suppress(course.lost):
            await course.stream.aclose()
        while True:
            await anyio.sleep(course.wait_s(error))
            try:
                response = await self._inner.handle_async_request(course.rest())
            except course.lost:
                continue
            if course.takes(response):
                return
            with suppress(course.lost):
                await response.aclose()
            if course.refused:
                raise error


def _ask(request: Any, terms: _Terms) -> None:
    if request.method == "POST" and ASKED not in request.headers:
        request.headers[ASKED] = terms.wish
        request.headers["accept-encoding"] = "identity"


def _resumable(response: Any) -> bool:
    encoding = response.headers.get("content-encoding", "identity")
    return ADDRESS in response.headers and encoding == "identity"


def _package(response: Any) -> Any:
    """httpx, or httpx2: whose response it is."""
    return sys.modules[type(response).__module__.partition(".")[0]]


@lru_cache
def _streams(package: Any) -> tuple[Any, Any]:
    """The two bodies as streams of that package."""
    return (
        type("ResumingStream", (_Body, package.SyncByteStream), {}),
        type("AsyncResumingStream", (_AsyncBody, package.AsyncByteStream), {}),
    )
