"""The HTTP client behind every HTTP provider, as narrow as the providers need it: open, read, close.

aiohttp does the work.  What this module adds:
* every foreign exception becomes an `ApiError` here and nowhere else: before the answer's head `network` or
  `timeout(connect)`, after it `truncated`;
* what had arrived before a cut is delivered before the cut is reported: aiohttp alone would drop it;
* the proxy is looked up once.  `trust_env` would read the environment and ~/.netrc in two threads for every request,
  and fails when ~/.netrc names a host that also gets a key.  An upstream on this machine never gets a proxy.
"""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import aiohttp
from yarl import URL

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.providers.outbound import FROM_ENVIRONMENT, Outbound, proxy_for

DRAIN_S: Final = 0.1
"""How long a finished answer may take to end its HTTP body before its connection is given up."""
KEEPALIVE_S: Final = 30.0
_INLINE_BODY_BYTES: Final = 256 * 1024


Take = Callable[[list[bytes]], bool]
"""Takes what stands in pieces that have arrived, oldest first: all of it, or nothing and says False."""


class Response(Protocol):
    """An answer whose head has arrived.  `headers` has lower-case names."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    async def read(self, onward: Callable[[bytes], bool] | None = None) -> bytes | None:
        """All that has arrived, at least one byte; None at the body's proper end.  Raises `ApiError` on a cut.

        While it waits, it may give what arrives to `onward` instead, until that says False: then this returns b"".
        What `onward` raises is raised here.
        """
        ...

    def straighten(self, data: bytes, head: bytes, tail: bytes, take: Take) -> None:
        """`onward` has just taken `data`: what comes next may be given to `take` instead, freed of these ends.

        It is given only what arrives as `data` did, each piece in one with nothing around it, beginning with `head`
        and ending with `tail`.  What `take` says False to, and everything else, goes to `onward` as before.
        """
        ...

    async def close(self, *, complete: bool) -> None:
        """Keep the connection if the answer is `complete` and its body ends; else close the socket.  Idempotent."""
        ...


class Client(Protocol):
    """Connections to one upstream."""

    async def open(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        """Send a request; returns when the answer's head is there.  Raises `ApiError`, then nothing is left open."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


class AiohttpClient:
    """`Client` over one aiohttp session, made when it is first needed."""

    def __init__(
        self, name: str, base_url: str, *, connect_s: float, ca_file: str | None, outbound: Outbound = FROM_ENVIRONMENT
    ) -> None:
        self._name = name
        self._connect_s = connect_s
        self._proxy, secret = proxy_for(base_url, outbound)
        tunnel = URL(base_url).scheme == "https"
        self._proxy_headers = secret if tunnel else {}  # to the proxy alone, with its CONNECT
        self._extra_headers = {} if tunnel else secret  # without TLS the proxy reads the request itself
        speaks_tls = tunnel or (self._proxy is not None and self._proxy.scheme == "https")
        # Reading the system's authorities takes 40 ms.  Where nothing needs them, what would come by TLS all the same
        # is trusted as aiohttp trusts it, never blindly.
        self._tls: ssl.SSLContext | bool = trust(ca_file, outbound.ca_file) if speaks_tls else True
        self._session: aiohttp.ClientSession | None = None

    async def open(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        session = self._session
        if session is None:
            session = self._session = self._connect()
        large = body is not None and len(body) > _INLINE_BODY_BYTES
        try:
            response = await session.request(
                method,
                URL(url, encoded=True),
                data=io.BytesIO(body) if large and body is not None else body,
                headers={**headers, **self._extra_headers} if self._extra_headers else headers,
                allow_redirects=False,
                proxy=self._proxy,
                proxy_headers=self._proxy_headers or None,
            )
        except (aiohttp.ClientError, OSError) as error:
            raise self._unanswered(error) from None
        return AiohttpResponse(self._name, response)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _connect(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._tls, keepalive_timeout=KEEPALIVE_S),
            timeout=aiohttp.ClientTimeout(
                total=None, connect=self._connect_s, sock_connect=self._connect_s, sock_read=None, ceil_threshold=3600
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("User-Agent", "Accept-Encoding"),
        )

    def _unanswered(self, error: Exception) -> ApiError:
        """The failure of a request that got no answer.  Says what the system said, never the URL or a header."""
        match error:
            case TimeoutError():
                text = f"no connection to the upstream within {self._connect_s:g} s"
                return ApiError(Kind.TIMEOUT, text, clock="connect", code="connect_timeout", provider=self._name)
            case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
                text = "the upstream's TLS certificate was not accepted"
            case aiohttp.ClientProxyConnectionError() | aiohttp.ClientHttpProxyError():
                text = "the proxy did not connect to the upstream"
            case aiohttp.ClientConnectorDNSError():
                text = "the upstream's host name is not known"
            case aiohttp.ClientConnectorError():
                text = f"no connection to the upstream: {error.os_error.strerror or type(error.os_error).__name__}"
            case aiohttp.ClientResponseError():
                return ApiError(Kind.UPSTREAM, "the upstream's answer is not HTTP", provider=self._name)
            case _:
                text = "the upstream closed the connection without an answer"
        return ApiError(Kind.NETWORK, text, provider=self._name)


class AiohttpResponse:
    """`Response` over aiohttp's."""

    __slots__ = ("_content", "_name", "_readany", "_response")

    def __init__(self, name: str, response: aiohttp.ClientResponse) -> None:
        self._name = name
        self._response = response
        self._content = response.content
        self._readany = response.content.readany

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return {name.lower(): value for name, value in self._response.headers.items()}

    async def read(self, onward: Callable[[bytes], bool] | None = None) -> bytes | None:
        try:
            return await self._readany() or None
        except (aiohttp.ClientError, OSError) as error:
            return self._last_words(error)

    def straighten(self, data: bytes, head: bytes, tail: bytes, take: Take) -> None:
        """This one gives nothing to `onward`."""

    async def close(self, *, complete: bool) -> None:
        content = self._content
        try:
            if complete and not content.is_eof():
                await self._drain()
        finally:
            if complete and content.is_eof():
                self._response.release()
            else:
                self._response.close()
        await asyncio.sleep(0)  # the transport closes its socket in the loop's next turn

    async def _drain(self) -> None:
        """The few bytes that end the body of a finished answer: a last chunk, a terminator nobody waits for."""
        try:
            async with asyncio.timeout(DRAIN_S):
                while await self._readany():
                    pass
        except (aiohttp.ClientError, OSError):  # TimeoutError is an OSError; the connection is then not kept
            return

    def _last_words(self, error: Exception) -> bytes:
        """What arrived before the cut; the next read raises."""
        content = self._content
        content.set_exception(None)  # type: ignore[arg-type]  # else nothing that was buffered can be read
        data = content.read_nowait()
        content.set_exception(error)
        if data:
            return data
        if isinstance(error, aiohttp.ClientPayloadError) and isinstance(
            error.__cause__, aiohttp.http_exceptions.ContentEncodingError
        ):
            raise ApiError(Kind.UPSTREAM, "malformed answer: its compression is broken", provider=self._name) from None
        raise ApiError(
            Kind.TRUNCATED, "the connection to the upstream was cut in the middle of its answer", provider=self._name
        ) from None


def trust(*ca_files: str | None) -> ssl.SSLContext:
    """The system's authorities, and more where they are given."""
    context = ssl.create_default_context()
    for ca_file in ca_files:
        if ca_file is not None:
            context.load_verify_locations(cafile=ca_file)
    context.set_alpn_protocols(["http/1.1"])
    return context
