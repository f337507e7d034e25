"""F7: media type and stream mode follow the client's dialect and its `stream`, whatever the upstream and Accept say."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import pytest

from tests.engine.client import calling
from tests.engine.place import Place, placed
from tests.engine.words import ALL, END, PLAIN, ROLE, Speaks, begin, document, provider, says, talk
from tests.fakes import JSON, NDJSON, SSE, Asked

pytestmark = [pytest.mark.anyio, pytest.mark.fault("F7")]

ACCEPT: Final = (None, "*/*", "text/event-stream", "application/json", "application/x-ndjson", "text/html")


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    def config(url: str) -> str:
        return PLAIN + provider("up", url)

    async with placed(tmp_path_factory.mktemp("f7"), config) as made:
        yield made


async def streams(asked: Asked) -> None:
    await begin(asked, ROLE, says("hel"), says("lo"))
    await asked.end(END)


async def replies(asked: Asked) -> None:
    await asked.answer(200, JSON, document("hello"))


async def streams_unnamed(asked: Asked) -> None:
    """A stream that says of itself what it is not, or nothing."""
    await asked.head(200, "text/plain" if b'"stream":true' in asked.body else SSE)
    await asked.send(ROLE + says("hello"))
    await asked.end(END)


WAYS: Final[dict[str, Callable[[Asked], Awaitable[None]]]] = {
    "a stream": streams,
    "a document": replies,
    "a stream under another name": streams_unnamed,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_the_client_gets_what_it_asked_for(place: Place, speaks: Speaks, stream: bool, way: str) -> None:
    for accept in ACCEPT if way == "a stream" else (None, "text/event-stream"):
        headers = {} if accept is None else {"accept": accept}
        async with calling(place.server.port, speaks.path, talk("up/m", stream=stream), headers) as client:
            asked = await place.asked()
            assert asked.headers["accept"] == (SSE if stream else JSON)
            await WAYS[way](asked)
            answer = await client.answer()
            body = await answer.rest()
        assert answer.status == 200
        if stream:
            assert answer.headers["content-type"] == speaks.media
            assert (speaks.text(body), speaks.finished(body)) == ("hello", True)
        else:
            assert answer.headers["content-type"] == "application/json"
            assert speaks.whole(await answer.json()) == "hello"


@pytest.mark.promise(14, 145)
@pytest.mark.parametrize(
    ("path", "media"), [("/api/chat", NDJSON), ("/ollama/api/chat", JSON), ("/api/generate", NDJSON)]
)
async def test_of_one_dialects_two_surfaces_each_has_its_own_type(place: Place, path: str, media: str) -> None:
    request = {**talk("up/m"), "prompt": "hi"}
    async with calling(place.server.port, path, request, {"accept": SSE}) as client:
        await streams(await place.asked())
        answer = await client.answer()
        await answer.rest()
    assert answer.headers["content-type"] == media
