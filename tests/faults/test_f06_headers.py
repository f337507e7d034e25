"""F6: nothing of an upstream's head reaches the client; its headers are made here."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from tests.engine.client import Answer, calling
from tests.engine.place import Place, placed
from tests.engine.words import ALL, END, OPENAI, PLAIN, ROLE, Speaks, document, provider, refusal, says, talk
from tests.fakes import JSON, SSE

pytestmark = [pytest.mark.anyio, pytest.mark.fault("F6")]

MARK: Final = "from-the-upstream"
THEIRS: Final = {
    "server": MARK,
    "x_request_id": MARK,
    "request_id": MARK,
    "set_cookie": f"session={MARK}",
    "cache_control": "max-age=3600",
    "etag": MARK,
    "location": f"https://{MARK}/",
    "openai_organization": MARK,
    "x_ratelimit_remaining_tokens": "7",
    "access_control_allow_origin": "*",
    "strict_transport_security": "max-age=1",
    "content_language": "tlh",
    "vary": MARK,
    "x_rivermouth_ignored": MARK,
    "x_npu_proxy_device": MARK,
    "keep_alive": "timeout=1",
    "trailer": "x-sum",
    "alt_svc": 'h3=":443"',
}
OURS: Final = {
    "date",
    "content-type",
    "content-length",
    "transfer-encoding",
    "connection",
    "cache-control",
    "x-accel-buffering",
    "x-request-id",
    "request-id",
    "x-amzn-requestid",
    "x-should-retry",
    "retry-after",
    "x-rivermouth-ignored",
}
"""Every header that an answer may have."""


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    def config(url: str) -> str:
        return PLAIN + provider("up", url)

    async with placed(tmp_path_factory.mktemp("f6"), config) as made:
        yield made


def is_ours(answer: Answer) -> None:
    names = [name for name, _ in answer.pairs]
    assert set(names) <= OURS
    assert len(names) == len(set(names)), "no header twice"
    assert MARK not in str(answer.pairs)


@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_of_a_stream(place: Place, speaks: Speaks) -> None:
    async with calling(place.server.port, speaks.path, talk("up/m")) as client:
        asked = await place.asked()
        engine = zlib.compressobj(wbits=31)
        await asked.head(200, f"{SSE}; charset={MARK}", content_encoding="gzip", **THEIRS)
        for piece in (ROLE, says("hello"), END):
            await asked.send(engine.compress(piece) + engine.flush(zlib.Z_SYNC_FLUSH))
        await asked.end(engine.flush())
        answer = await client.answer()
        body = await answer.rest()
    is_ours(answer)
    assert answer.headers["content-type"] == speaks.media
    assert answer.headers["cache-control"] == "no-cache, no-transform"
    assert "content-length" not in answer.headers
    assert speaks.text(body) == "hello"


@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_of_a_document(place: Place, speaks: Speaks) -> None:
    """The upstream's length is that of its compressed body: another than ours."""
    async with calling(place.server.port, speaks.path, talk("up/m", stream=False)) as client:
        packed = gzip.compress(document("hello"), mtime=0)
        await (await place.asked()).answer(200, JSON, packed, content_encoding="gzip", **THEIRS)
        answer = await client.answer()
        reply = await answer.json()
    is_ours(answer)
    assert answer.headers["content-length"] == str(len(answer.body)) != str(len(packed))
    assert speaks.whole(reply) == "hello"


@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
async def test_of_an_error(place: Place, speaks: Speaks, status: int) -> None:
    async with calling(place.server.port, speaks.path, talk("up/m")) as client:
        more: dict[str, Any] = {**THEIRS, "retry_after": "3"}
        await (await place.asked()).answer(status, JSON, refusal("no"), **more)
        answer = await client.answer()
        reply = await answer.json()
    is_ours(answer)
    assert speaks.refused(reply) == "no"


async def test_a_page_that_may_call_reads_our_ids_and_no_header_of_theirs(place: Place) -> None:
    page = {"origin": "http://localhost:3000"}
    async with calling(place.server.port, OPENAI.path, talk("up/m", stream=False), page) as client:
        await (await place.asked()).answer(200, JSON, document("hello"), **THEIRS)
        answer = await client.answer()
        await answer.rest()
    assert answer.headers["access-control-allow-origin"] == page["origin"]
    assert answer.headers["vary"] == "origin"
    assert MARK not in str(answer.pairs)
