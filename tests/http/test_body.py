"""Reading a body: whole, within its bounds, or a reason why not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rivermouth.http.body import ClientLeft, read_body
from rivermouth.http.headers import Header
from rivermouth.ir.errors import ApiError, Kind
from tests.engine.jumping import jump

LIMIT_BYTES = 1000
LIMIT_S = 60.0


class Fake:
    """An ASGI `receive` with these messages; after the last it waits for ever."""

    def __init__(self, *messages: dict[str, Any], pause_s: float = 0.0) -> None:
        self.messages = list(messages)
        self._pause_s = pause_s

    async def __call__(self) -> dict[str, Any]:
        await asyncio.sleep(self._pause_s if self.messages else 1e9)
        return self.messages.pop(0)


def part(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def read(receive: Fake, *headers: Header) -> bytes:
    return jump(read_body(receive, list(headers), LIMIT_BYTES, LIMIT_S))


def failure(receive: Fake, *headers: Header) -> ApiError:
    with pytest.raises(ApiError) as caught:
        read(receive, *headers)
    return caught.value


@pytest.mark.parametrize(
    "messages",
    [
        [part(b"hello", more=False)],
        [part(b"hel"), part(b"lo", more=False)],
        [part(b"hel"), part(b""), part(b"lo"), part(b"", more=False)],
        [{"type": "http.request", "body": b"hello"}],
    ],
)
def test_it_does_not_matter_how_it_was_cut(messages: list[dict[str, Any]]) -> None:
    assert read(Fake(*messages)) == b"hello"


def test_no_body_is_an_empty_one() -> None:
    assert read(Fake({"type": "http.request"})) == b""


def test_a_body_of_exactly_the_limit_passes() -> None:
    body = b"x" * LIMIT_BYTES
    assert read(Fake(part(body, more=False)), (b"content-length", b"1000")) == body


@pytest.mark.fault("F35")
def test_one_that_is_announced_too_large_is_not_read_at_all() -> None:
    receive = Fake(part(b"x", more=False))
    error = failure(receive, (b"content-length", b"1001"))
    assert (error.kind, error.status, error.code) == (Kind.TOO_LARGE, 413, "request_too_large")
    assert len(receive.messages) == 1


@pytest.mark.fault("F35")
@pytest.mark.parametrize("headers", [[], [(b"transfer-encoding", b"chunked")], [(b"content-length", b"lots")]])
def test_one_that_only_grows_too_large_is_read_no_further(headers: list[Header]) -> None:
    receive = Fake(*[part(b"x" * 300)] * 10)
    assert failure(receive, *headers).kind is Kind.TOO_LARGE
    assert len(receive.messages) == 6


def test_one_that_dribbles_has_its_time() -> None:
    error = failure(Fake(*[part(b"x")] * 100, pause_s=7.0))
    assert (error.kind, error.status) == (Kind.TIMEOUT, 408)
    assert "60 s" in error.message
    assert read(Fake(*[part(b"x")] * 7, part(b"", more=False), pause_s=7.0)) == b"x" * 7


def test_a_client_that_leaves_before_the_end_has_made_no_request() -> None:
    with pytest.raises(ClientLeft):
        read(Fake(part(b"x"), {"type": "http.disconnect"}))
