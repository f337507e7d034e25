"""One file over HTTP into a part: from where the last try ended, if its source can prove that it is the same file.

    begin -> GET, Range and If-Range where there is a part -> 206 appended | 200 from the start -> whole
             redirects are followed by hand: a few, never from https to http, never into a private network from outside

A connection that is lost in the middle is taken up again a few times.  What does not fit (a size, a range, a coding) is
an error of the source and ends the pull.  No message has more of an address than its host.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urljoin, urlsplit

import msgspec

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.models.catalog import url_problem
from rivermouth.local.models.registry import READ_BYTES
from rivermouth.local.sources.blocks import check_room, disk_error, in_thread
from rivermouth.local.sources.gathered import Clocks
from rivermouth.local.sources.partials import Origin, Partial
from rivermouth.loopback import is_loopback
from rivermouth.providers.client import AiohttpClient, Response
from rivermouth.providers.outbound import FROM_ENVIRONMENT, Outbound
from rivermouth.secrets import Secret

REDIRECTS_CAP: Final = 5
RECONNECTS_CAP: Final = 100
"""Of one file in one pull, however well it goes on each time."""

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
REFUSALS: Final[dict[int, tuple[Kind, str, str]]] = {
    401: (Kind.PERMISSION, "source_refused", "wants other credentials"),
    403: (Kind.PERMISSION, "source_refused", "refused access"),
    404: (Kind.NOT_FOUND, "not_at_source", "does not have this file"),
    410: (Kind.NOT_FOUND, "not_at_source", "does not have this file any more"),
    429: (Kind.OVERLOADED, "source_busy", "is asked too often"),
    503: (Kind.OVERLOADED, "source_busy", "takes no more now"),
}
"""What an HTTP status of a source means.  All others are its failure."""

_RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_DIGITS: Final = re.compile(r"\d{1,18}")


class Remote(msgspec.Struct, frozen=True, kw_only=True):
    """Where a file is.  `size_bytes`: what it must have, if that is known; it never has more than `cap_bytes`.

    token: shown to the origin of `url` and to nobody it redirects to.
    """

    url: str
    cap_bytes: int
    size_bytes: int | None = None
    token: Secret | None = None
    outbound: Outbound = FROM_ENVIRONMENT


class Connection:
    """An answer, and the client that it came through."""

    def __init__(self, client: AiohttpClient, response: Response, host: str) -> None:
        self.response = response
        self.host = host
        self._client = client

    async def close(self) -> None:
        await self.response.close(complete=False)
        await self._client.close()


async def transfer(
    remote: Remote, part: Partial, begun: Callable[[int], None], advance: Callable[[int], None], clocks: Clocks
) -> None:
    """Fills the part to its end.  `begun(total)` comes once, before any `advance(completed)`.  Raises `ApiError`."""
    lost = 0
    told = False

    def begin(total: int) -> None:
        nonlocal told
        if not told:
            told = True
            begun(total)

    for reconnects in range(RECONNECTS_CAP):
        before = part.size_bytes
        try:
            await _attempt(remote, part, begin, advance, clocks)
        except ApiError as error:
            if error.kind not in (Kind.TRUNCATED, Kind.NETWORK, Kind.TIMEOUT) or not told:
                raise
            lost = 0 if part.size_bytes > before else lost + 1
            if lost == clocks.tries or reconnects == RECONNECTS_CAP - 1:
                raise
            await asyncio.sleep(clocks.pause_s * 2**lost)
        else:
            return


async def collect(remote: Remote, clocks: Clocks) -> bytes:
    """A small file, whole, in memory: no more than `cap_bytes`.  Raises `ApiError`."""
    for lost in range(clocks.tries):
        try:
            return await _collected(remote, clocks)
        except ApiError as error:
            if error.code != "cut_short" or lost == clocks.tries - 1:
                raise
            await asyncio.sleep(clocks.pause_s * 2**lost)
    raise AssertionError("tries is at least 1")


async def _collected(remote: Remote, clocks: Clocks) -> bytes:
    connection = await _open(remote, None, clocks)
    try:
        total = _announced(remote, connection)
        body = bytearray()
        while (data := await _read(connection, clocks)) is not None:
            body += data
            if len(body) > total:
                raise _bad(connection.host, f"sent more than the {total} bytes it announced")
        if len(body) < total:
            raise _short(connection.host, len(body), total)
        return bytes(body)
    finally:
        await connection.close()


async def _attempt(
    remote: Remote, part: Partial, begun: Callable[[int], None], advance: Callable[[int], None], clocks: Clocks
) -> None:
    origin = part.origin
    if origin is not None and part.size_bytes == origin.total_bytes:
        begun(origin.total_bytes)
        advance(part.size_bytes)
        return
    connection = await _open(remote, part, clocks)
    try:
        total = _placed(remote, part, connection)
        await asyncio.to_thread(check_room, part.path.parent, total - part.size_bytes)
        begun(total)
        advance(part.size_bytes)
        await _drain(connection, part, total, advance, clocks)
    finally:
        await connection.close()


async def _drain(
    connection: Connection, part: Partial, total: int, advance: Callable[[int], None], clocks: Clocks
) -> None:
    """The body into the part, a block at a time."""
    waiting = bytearray()
    data: bytes | None = b""
    while data is not None:
        try:
            data = await _read(connection, clocks)
        except ApiError:
            await _write(part, bytes(waiting))
            raise
        waiting += data or b""
        if part.size_bytes + len(waiting) > total:
            part.discard()
            raise _bad(connection.host, f"sent more than the {total} bytes it announced")
        if waiting and (data is None or len(waiting) >= READ_BYTES):
            await _write(part, bytes(waiting))
            waiting.clear()
            advance(part.size_bytes)
    if part.size_bytes < total:
        raise _short(connection.host, part.size_bytes, total)


async def _read(connection: Connection, clocks: Clocks) -> bytes | None:
    try:
        async with asyncio.timeout(clocks.silence_s):
            return await connection.response.read()
    except TimeoutError:
        raise ApiError(
            Kind.TIMEOUT, f"{connection.host} was silent for {clocks.silence_s:g} s", clock="idle", code="source_silent"
        ) from None
    except ApiError as error:
        raise ApiError(error.kind, f"the connection to {connection.host} was lost", code="cut_short") from None


async def _write(part: Partial, block: bytes) -> None:
    try:
        await in_thread(lambda _: part.write(block))
    except OSError as error:
        part.discard()  # a full disk needs the room more than we do
        raise disk_error(error) from error


async def _open(remote: Remote, part: Partial | None, clocks: Clocks) -> Connection:
    """The answer that has the file, after the redirects."""
    url = remote.url
    for _ in range(REDIRECTS_CAP + 1):
        connection = await _ask(url, _headers(remote, part, url), clocks, remote.outbound)
        response = connection.response
        if response.status in (200, 206):
            return connection
        status, location = response.status, response.headers.get("location")
        await connection.close()
        if status == 416 and part is not None and part.size_bytes:
            part.restart(None)
            continue
        if status not in REDIRECTS or location is None:
            raise _refusal(connection.host, status)
        url = redirected(url, location)
    raise _bad(_host(remote.url), f"redirects more than {REDIRECTS_CAP} times")


async def _ask(url: str, headers: Mapping[str, str], clocks: Clocks, outbound: Outbound) -> Connection:
    host = _host(url)
    client = AiohttpClient(host, url, connect_s=clocks.connect_s, ca_file=None, outbound=outbound)
    try:
        async with asyncio.timeout(clocks.silence_s):
            response = await client.open("GET", url, headers, None)
    except TimeoutError:
        await client.close()
        raise ApiError(Kind.TIMEOUT, f"{host} does not answer", clock="idle", code="source_silent") from None
    except ApiError as error:
        await client.close()
        raise ApiError(error.kind, f"{host}: {error.message}", code="source_unreachable") from None
    except BaseException:
        await client.close()
        raise
    return Connection(client, response, host)


def _headers(remote: Remote, part: Partial | None, url: str) -> dict[str, str]:
    headers = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "rivermouth"}
    if remote.token is not None and _origin(url) == _origin(remote.url):
        headers["authorization"] = f"Bearer {remote.token.reveal()}"
    if part is not None and part.size_bytes and part.origin is not None:
        headers |= {"range": f"bytes={part.size_bytes}-", "if-range": part.origin.validator}
    return headers


def _placed(remote: Remote, part: Partial, connection: Connection) -> int:
    """Where the body goes: after what there is, or in its place.  Returns the size of the whole file."""
    headers, host = connection.response.headers, connection.host
    if connection.response.status == 206:
        found = _RANGE.fullmatch(headers.get("content-range", ""))
        if found is None or part.origin is None or int(found[1]) != part.size_bytes:
            part.restart(None)
            raise _bad(host, "sent another range than was asked for")
        total = int(found[3])
        if total != part.origin.total_bytes:
            part.restart(None)
            raise _bad(host, "says that the file has another size now")
        return total
    total = _announced(remote, connection)
    part.restart(_described(headers, total))
    return total


def _announced(remote: Remote, connection: Connection) -> int:
    """How large the answer says that the whole file is.  Raises `ApiError` when that is not what it should be."""
    headers, host = connection.response.headers, connection.host
    if headers.get("content-encoding", "identity") != "identity":
        raise _bad(host, "sends the file in a coding that was not asked for")
    length = headers.get("content-length", "")
    total = int(length) if _DIGITS.fullmatch(length) else remote.size_bytes or -1
    if total < 0:
        raise _bad(host, "does not say how large the file is")
    if remote.size_bytes is not None and total != remote.size_bytes:
        raise ApiError(
            Kind.UPSTREAM, f"{host} has {total} bytes, the file should have {remote.size_bytes}", code="wrong_size"
        )
    if total > remote.cap_bytes:
        raise ApiError(
            Kind.TOO_LARGE, f"the file has {total} bytes, {remote.cap_bytes} may be pulled", code="model_too_large"
        )
    return total


def _described(headers: Mapping[str, str], total: int) -> Origin | None:
    """What a later try can name the file by; None where the source cannot go on from the middle."""
    tag = headers.get("etag", "")
    validator = tag if tag.startswith('"') else headers.get("last-modified", "")
    if headers.get("accept-ranges") != "bytes" or not validator.isascii() or not 0 < len(validator) <= 256:
        return None
    return Origin(validator, total)


def redirected(url: str, location: str) -> str:
    """Where a redirect leads.  Raises `ApiError` where it must not."""
    host, target = _host(url), urljoin(url, location)
    if url_problem(target) is not None:
        raise _bad(host, "redirects to what is no address")
    if url.startswith("https:") and not target.startswith("https:"):
        raise _bad(host, "redirects from https to http")
    if _is_private(_host(target)) and not _is_private(host):
        raise _bad(host, "redirects into a private network")
    return target


def _is_private(host: str) -> bool:
    """True for names and addresses that are not of the public network, as far as one sees without asking."""
    if is_loopback(host):
        return True
    try:
        return not ipaddress.ip_address(host.strip("[]")).is_global
    except ValueError:
        return "." not in host.rstrip(".")


def _refusal(host: str, status: int) -> ApiError:
    known = REFUSALS.get(status)
    if known is None:
        return ApiError(Kind.UPSTREAM, f"{host} answered with status {status}", code="source_failed")
    kind, code, words = known
    return ApiError(kind, f"{host} {words}", code=code)


def _short(host: str, size: int, total: int) -> ApiError:
    return ApiError(Kind.TRUNCATED, f"{host} sent {size} of {total} bytes", code="cut_short")


def _bad(host: str, words: str) -> ApiError:
    return ApiError(Kind.UPSTREAM, f"{host} {words}", code="bad_source")


def _host(url: str) -> str:
    return urlsplit(url).hostname or "the source"


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)
