"""The commit point: before the first content every failure leads to the next candidate, after it none does."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import pytest

from rivermouth.ir.errors import Kind
from rivermouth.store.port import Decision, Outcome, Status
from tests.engine.client import calling
from tests.engine.place import Place, gone, placed
from tests.engine.words import (
    ALL,
    DONE,
    END,
    IN_BAND,
    KEEP_ALIVE,
    OPENAI,
    PLAIN,
    ROLE,
    Speaks,
    begin,
    document,
    model,
    provider,
    refusal,
    says,
    talk,
)
from tests.fakes import JSON, Asked

pytestmark = pytest.mark.anyio

CLOCK_S: Final = 0.25
REASONING_NOTE: Final = b'event: note\ndata: {"choices":[],"note":"thinking hard"}\n\n'


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    """Three models with two candidates each: `first`, or one whose first-token or idle clock is short, and `second`."""

    def config(url: str) -> str:
        providers = provider("hasty", url, first_token_s=CLOCK_S) + provider("brisk", url, idle_s=CLOCK_S)
        models = "".join(model(name, name, "second") for name in ("first", "hasty", "brisk"))
        return PLAIN + provider("first", url) + providers + provider("second", url) + models

    async with placed(tmp_path_factory.mktemp("commit"), config) as made:
        yield made


@pytest.fixture(autouse=True)
async def nothing_is_left(place: Place) -> AsyncIterator[None]:
    yield
    place.clear()
    await place.server.idle()


async def stalls(asked: Asked, *pieces: bytes) -> None:
    """Says nothing more; a clock of the server's runs out."""
    await begin(asked, *pieces)
    await gone(asked)


async def stays(asked: Asked, *pieces: bytes) -> None:
    """Has said enough; the server closes the connection."""
    await begin(asked, *pieces)
    await gone(asked)


async def cut(asked: Asked, *pieces: bytes) -> None:
    await begin(asked, *pieces)
    asked.cut()


async def reset(asked: Asked, *pieces: bytes) -> None:
    await begin(asked, *pieces)
    asked.reset()


async def silent(asked: Asked) -> None:
    """Never even answers."""
    await gone(asked)


async def hung_up(asked: Asked) -> None:
    """Not without a word: a kept connection that closes without one has only been kept too long, and is no failure."""
    await asked.raw(b"HTTP/1.1 200")
    asked.cut()


async def ended(asked: Asked, *pieces: bytes) -> None:
    """A proper end of the body and none of the stream."""
    await begin(asked, *pieces)
    await asked.end()


Fails = Callable[[Asked], Awaitable[None]]


def with_status(status: int) -> Fails:
    async def fails(asked: Asked) -> None:
        await asked.answer(status, JSON, refusal("no"))

    return fails


def after(fails: Callable[..., Awaitable[None]], *pieces: bytes) -> Fails:
    async def failing(asked: Asked) -> None:
        await fails(asked, *pieces)

    return failing


async def not_http(asked: Asked) -> None:
    await asked.raw(b"SSH-2.0-OpenSSH_9.6\r\n")


async def web_page(asked: Asked) -> None:
    await asked.answer(200, "text/html", b"<html>Welcome</html>")


BEFORE_CONTENT: Final[dict[str, tuple[Fails, Kind]]] = {
    "status 500": (with_status(500), Kind.UPSTREAM),
    "status 503": (with_status(503), Kind.OVERLOADED),
    "status 429": (with_status(429), Kind.RATE_LIMITED),
    "our key is refused": (with_status(401), Kind.AUTHENTICATION),
    "a redirect": (with_status(302), Kind.UPSTREAM),
    "closed within the head": (hung_up, Kind.NETWORK),
    "silence": (silent, Kind.TIMEOUT),
    "a web page": (web_page, Kind.UPSTREAM),
    "not HTTP": (not_http, Kind.UPSTREAM),
    "a cut": (cut, Kind.TRUNCATED),
    "a cut after the role": (after(cut, ROLE), Kind.TRUNCATED),
    "a reset after the role": (after(reset, ROLE), Kind.TRUNCATED),
    "a stall": (stalls, Kind.TIMEOUT),
    "a stall after keep-alives and the role": (after(stalls, KEEP_ALIVE, KEEP_ALIVE, ROLE, ROLE), Kind.TIMEOUT),
    "a stall after a chunk of no content": (after(stalls, REASONING_NOTE), Kind.TIMEOUT),
    "a malformed frame": (after(stays, b"data: {what\n\n"), Kind.UPSTREAM),
    "an empty body": (ended, Kind.TRUNCATED),
    "no content, well ended": (after(ended, END), Kind.UPSTREAM),
    "nothing but [DONE]": (after(ended, DONE), Kind.UPSTREAM),
    "an error in the stream": (after(stays, ROLE, IN_BAND), Kind.UPSTREAM),
}
PASSING: Final = "status 503"


async def answers(asked: Asked) -> None:
    assert asked.path.startswith("/second/")
    await begin(asked, ROLE, says("fi"), says("ne"))
    await asked.end(END)


@pytest.mark.fault("F17", "F12")
@pytest.mark.promise(5, 59)
@pytest.mark.parametrize("failure", BEFORE_CONTENT)
async def test_before_content_the_next_candidate_answers(place: Place, failure: str) -> None:
    fails, kind = BEFORE_CONTENT[failure]
    await passes_over(place, OPENAI, fails, kind)


@pytest.mark.fault("F17")
@pytest.mark.parametrize("failure", ["a cut after the role", "an error in the stream", PASSING])
@pytest.mark.parametrize("speaks", ALL[1:], ids=lambda s: s.name)
async def test_so_it_is_in_every_dialect(place: Place, speaks: Speaks, failure: str) -> None:
    fails, kind = BEFORE_CONTENT[failure]
    await passes_over(place, speaks, fails, kind)


async def passes_over(place: Place, speaks: Speaks, fails: Fails, kind: Kind) -> None:
    """The first candidate fails so; nothing of it is in the answer, and the record tells both."""
    server = place.server
    wanted = "hasty" if kind is Kind.TIMEOUT else "first"
    async with calling(server.port, speaks.path, talk(wanted)) as client:
        first = await place.asked()
        assert first.path.startswith(f"/{wanted}/")
        await fails(first)
        await answers(await place.asked())
        answer = await client.answer()
        body = await answer.rest()
    assert answer.status == 200
    assert speaks.text(body) == "fine"
    assert speaks.finished(body)
    assert speaks.failed(body) is None
    assert body.count(speaks.opening) == 1
    record = await server.record(answer.call_id)
    assert (record.status, record.kind, record.provider) == (Status.COMPLETED, None, "second")
    assert [(a.number, a.provider, a.outcome, a.kind) for a in record.attempts] == [
        (1, wanted, Outcome.FAILED, kind),
        (2, "second", Outcome.COMPLETED, None),
    ]
    assert record.decisions == (
        Decision(f"{wanted}/m", "configured, 1 of 2"),
        Decision("second/m", "configured, 2 of 2"),
    )
    assert [a.text_chars for a in record.attempts] == [0, 4]
    assert record.text_chars == 4


@pytest.mark.fault("F17", "F7")
@pytest.mark.parametrize("failure", ["a cut after the role", "closed within the head", PASSING])
async def test_a_client_that_does_not_stream_has_the_same(place: Place, failure: str) -> None:
    fails, kind = BEFORE_CONTENT[failure]
    async with calling(place.server.port, OPENAI.path, talk("first", stream=False)) as client:
        await fails(await place.asked())
        await (await place.asked()).answer(200, JSON, document("fine"))
        answer = await client.answer()
        assert OPENAI.whole(await answer.json()) == "fine"
    record = await place.server.record(answer.call_id)
    assert [a.kind for a in record.attempts] == [kind, None]


@pytest.mark.fault("F17")
async def test_nothing_is_committed_while_a_document_is_gathered(place: Place) -> None:
    """The first candidate streams, although nobody asked it to, and dies midway: no client has seen any of it."""
    async with calling(place.server.port, OPENAI.path, talk("first", stream=False)) as client:
        await cut(await place.asked(), ROLE, says("Hel"), says("lo"))
        await (await place.asked()).answer(200, JSON, document("fine"))
        answer = await client.answer()
        assert OPENAI.whole(await answer.json()) == "fine"
    record = await place.server.record(answer.call_id)
    assert [(a.kind, a.text_chars) for a in record.attempts] == [(Kind.TRUNCATED, 5), (None, 4)]
    assert (record.text_chars, record.output_tokens) == (4, 5)


AFTER_CONTENT: Final[dict[str, tuple[Fails, Kind]]] = {
    "a cut": (after(cut, ROLE, says("Hel")), Kind.TRUNCATED),
    "a reset": (after(reset, ROLE, says("Hel")), Kind.TRUNCATED),
    "a proper end of the body": (after(ended, ROLE, says("Hel")), Kind.TRUNCATED),
    "a stall": (after(stalls, ROLE, says("Hel")), Kind.TIMEOUT),
    "a stall with keep-alives": (after(stalls, ROLE, says("Hel"), KEEP_ALIVE, ROLE), Kind.TIMEOUT),
    "a malformed frame": (after(stays, ROLE, says("Hel"), b"data: {what\n\n"), Kind.UPSTREAM),
    "an error in the stream": (after(stays, ROLE, says("Hel"), IN_BAND), Kind.UPSTREAM),
    "content and error in one read": (after(stays, ROLE + says("Hel") + IN_BAND), Kind.UPSTREAM),
}


@pytest.mark.fault("F18", "F14", "F10", "F11", "F16")
@pytest.mark.promise(4, 5, 18, 19, 59)
@pytest.mark.parametrize("failure", AFTER_CONTENT)
@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_after_content_a_failure_is_an_error_in_the_stream(place: Place, speaks: Speaks, failure: str) -> None:
    fails, kind = AFTER_CONTENT[failure]
    server = place.server
    wanted = "brisk" if kind is Kind.TIMEOUT else "first"
    async with calling(server.port, speaks.path, talk(wanted)) as client:
        asked = await place.asked()
        await fails(asked)
        answer = await client.answer()
        body = await answer.rest()
        await gone(asked)
    assert (answer.status, answer.headers["content-type"]) == (200, speaks.media)
    assert speaks.text(body) == "Hel"
    assert speaks.failed(body)
    assert not speaks.finished(body)
    record = await server.record(answer.call_id)
    assert (record.status, record.kind, record.provider) == (Status.FAILED, kind, wanted)
    assert [(a.provider, a.outcome, a.kind, a.text_chars) for a in record.attempts] == [
        (wanted, Outcome.FAILED, kind, 3)
    ]
    assert (record.text_chars, record.chunks, record.estimated) == (3, 1, True)
    assert place.upstream.requests[-1].path == f"/{wanted}/v1/chat/completions"


async def test_what_is_filtered_is_not_tried_elsewhere(place: Place) -> None:
    filtered = b'{"error":{"message":"not this","type":"invalid_request_error","code":"content_filter"}}'
    server = place.server
    async with calling(server.port, OPENAI.path, talk("first")) as client:
        await (await place.asked()).answer(400, JSON, filtered)
        answer = await client.answer()
        assert answer.status == 400
        assert OPENAI.refused(await answer.json()) == "not this"
    record = await server.record(answer.call_id)
    assert (record.status, record.kind, len(record.attempts)) == (Status.FAILED, Kind.CONTENT_FILTERED, 1)
    assert len(record.decisions) == 2


async def test_when_all_have_failed_the_client_learns_what_it_did_wrong(place: Place) -> None:
    server = place.server
    async with calling(server.port, OPENAI.path, talk("first")) as client:
        await (await place.asked()).answer(400, JSON, refusal("temperature is out of range"))
        await (await place.asked()).answer(503, JSON, refusal("too busy"))
        answer = await client.answer()
        assert answer.status == 400
        assert OPENAI.refused(await answer.json()) == "temperature is out of range"
    record = await server.record(answer.call_id)
    assert [a.kind for a in record.attempts] == [Kind.INVALID_REQUEST, Kind.OVERLOADED]


@pytest.mark.fault("F17", "F15")
async def test_else_it_gets_the_last_error(place: Place) -> None:
    server = place.server
    async with calling(server.port, OPENAI.path, talk("first")) as client:
        await cut(await place.asked(), ROLE)
        await (await place.asked()).answer(503, JSON, refusal("too busy"))
        answer = await client.answer()
        assert (answer.status, answer.headers["content-type"]) == (503, "application/json")
        assert OPENAI.refused(await answer.json()) == "too busy"
    record = await server.record(answer.call_id)
    assert (record.status, record.kind, record.provider) == (Status.FAILED, Kind.OVERLOADED, "second")
    assert [a.kind for a in record.attempts] == [Kind.TRUNCATED, Kind.OVERLOADED]
    assert [a.status_code for a in record.attempts] == [502, 503]


async def test_or_the_shortest_wait_where_all_ask_to_wait(place: Place) -> None:
    server = place.server
    async with calling(server.port, OPENAI.path, talk("first")) as client:
        await (await place.asked()).answer(429, JSON, refusal("first"), retry_after="7")
        await (await place.asked()).answer(429, JSON, refusal("second"), retry_after="90")
        answer = await client.answer()
        assert (answer.status, answer.headers["retry-after"]) == (429, "7")
        assert OPENAI.refused(await answer.json()) == "first"


@pytest.mark.fault("F17")
@pytest.mark.promise(76)
async def test_embeddings_fall_back_too(place: Place) -> None:
    vectors = {"object": "list", "model": "m", "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 1.0]}]}
    async with calling(place.server.port, "/v1/embeddings", {"model": "first", "input": "hi"}) as client:
        await hung_up(await place.asked())
        await (await place.asked()).answer(200, JSON, json.dumps(vectors).encode())
        answer = await client.answer()
        assert (await answer.json())["data"][0]["embedding"] == [0.5, 1.0]
    record = await place.server.record(answer.call_id)
    assert (record.operation, record.status) == ("embed", Status.COMPLETED)
    assert [(a.provider, a.kind) for a in record.attempts] == [("first", Kind.NETWORK), ("second", None)]
