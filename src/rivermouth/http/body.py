"""Request bodies: bounded in size and in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from rivermouth.http.headers import Header, get
from rivermouth.ir.errors import ApiError, Kind

Receive = Callable[[], Awaitable[Any]]
Here = Callable[[], bytes | None]


class ClientLeft(Exception):
    """The client went away before its request was whole."""


async def read_body(
    receive: Receive, headers: list[Header], limit_bytes: int, limit_s: float, here: Here | None = None
) -> bytes:
    """The whole body.  Raises `ApiError` too_large or timeout, or `ClientLeft`.

    here: gives the body if all of it has come already (`protocol.BODY`).
    """
    announced = get(headers, b"content-length")
    if announced is not None and announced.isdigit() and int(announced) > limit_bytes:
        raise _too_large(limit_bytes)
    whole = here() if here is not None else None
    if whole is not None:
        if len(whole) > limit_bytes:
            raise _too_large(limit_bytes)
        return whole
    try:
        async with asyncio.timeout(limit_s):
            return await _collect(receive, limit_bytes)
    except TimeoutError:
        raise ApiError(Kind.TIMEOUT, f"the request body did not arrive within {limit_s:g} s", status=408) from None


async def _collect(receive: Receive, limit_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        part = message.get("body", b"")
        size += len(part)
        if size > limit_bytes:
            raise _too_large(limit_bytes)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts) if len(parts) > 1 else part


def _too_large(limit_bytes: int) -> ApiError:
    return ApiError(Kind.TOO_LARGE, f"the request body is larger than {limit_bytes} bytes", code="request_too_large")
