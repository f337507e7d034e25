"""A call that nobody reads while the configuration changes: it ends as it began, and is read by the rules of now."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rivermouth.store.port import Status
from tests.engine.client import Answer, asking, calling
from tests.engine.lab import Lab, lab, until
from tests.engine.words import END, OPENAI, PLAIN, ROLE, begin, provider, says, talk
from tests.fakes import Asked, FakeUpstream

pytestmark = pytest.mark.anyio

ADDRESS = "x-rivermouth-resume"
WISH = {"x-rivermouth-resumable": "1"}


@pytest.fixture
async def upstream() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as upstream:
        yield upstream


async def left(server: Lab, upstream: FakeUpstream, key: dict[str, str] | None = None) -> tuple[Answer, Asked]:
    async with calling(server.port, OPENAI.path, talk("up/m"), {**WISH, **(key or {})}) as client:
        asked = await upstream.asked()
        await begin(asked, ROLE, says("one"))
        answer = await client.answer()
        await answer.until(b"one")
    await until(lambda: server.on_loop(lambda: server.inside.services.logged.statistics().readers) == 0, "nobody reads")
    return answer, asked


async def test_a_call_outlives_its_provider_and_its_connection(tmp_path: Path, upstream: FakeUpstream) -> None:
    with lab(tmp_path, PLAIN + provider("up", upstream.url), reloads=True) as server:
        answer, asked = await left(server, upstream)
        await server.reload(PLAIN + "[resume]\nenabled = false\n")
        editions = server.inside.services.editions
        assert server.on_loop(lambda: len(editions.living())) == 2
        async with asking(server.port, f"{answer.headers[ADDRESS]}?after={len(answer.body)}", method="GET") as again:
            await asked.send(says(" two"))
            await asked.end(END)
            assert OPENAI.text(answer.body + await again.rest()) == "one two"
        assert (await server.record(answer.call_id)).status is Status.COMPLETED
        await until(
            lambda: server.on_loop(lambda: len(editions.living())) == 1, "the edition is over with its last call"
        )
        async with asking(server.port, OPENAI.path, talk("scripted/scripted"), WISH) as plain:
            await plain.rest()
        assert ADDRESS not in plain.headers
        async with asking(server.port, answer.headers[ADDRESS], method="GET") as still:
            assert OPENAI.finished(await still.rest())


async def test_a_smaller_sum_holds_at_once(tmp_path: Path, upstream: FakeUpstream) -> None:
    config = PLAIN + provider("up", upstream.url)
    with lab(tmp_path, config, reloads=True) as server:
        answers = []
        for _ in range(3):
            answer, asked = await left(server, upstream)
            for _ in range(20):
                await asked.send(says("x" * 2000))
            await asked.end(END)
            await server.record(answer.call_id)
            answers.append(answer)
        await server.reload(config + f"[resume]\ntotal_bytes = {64 * 1024}\n")
        statistics = server.on_loop(server.inside.services.logged.statistics)
        assert statistics.held_bytes <= statistics.limit_bytes == 64 * 1024
        found = []
        for answer in answers:
            async with asking(server.port, answer.headers[ADDRESS], method="GET") as again:
                await again.rest()
            found.append(again.status)
        assert found == [410, 410, 200]


async def test_a_key_that_is_gone_reads_nothing_any_more(tmp_path: Path, upstream: FakeUpstream) -> None:
    """And one that has its name is its heir, as it is of the records."""
    keys = '[keys.{}]\nkey = "{}"\n'
    ann, other = keys.format("ann", "key-of-ann-number-one"), keys.format("bob", "key-of-bob-number-two")
    heir = keys.format("ann", "another-key-of-the-same-name")
    bearer = {
        name: {"authorization": f"Bearer {name}"} for name in ("key-of-ann-number-one", "another-key-of-the-same-name")
    }
    with lab(tmp_path, PLAIN + ann + other + provider("up", upstream.url), reloads=True) as server:
        answer, asked = await left(server, upstream, bearer["key-of-ann-number-one"])
        await asked.end(END)
        await server.reload(PLAIN + other + provider("up", upstream.url))
        async with asking(
            server.port, answer.headers[ADDRESS], None, bearer["key-of-ann-number-one"], method="GET"
        ) as again:
            assert (again.status, json.loads(await again.rest())["error"]["code"]) == (401, "invalid_api_key")
        await server.reload(PLAIN + other + heir + provider("up", upstream.url))
        async with asking(
            server.port, answer.headers[ADDRESS], None, bearer["another-key-of-the-same-name"], method="GET"
        ) as again:
            assert OPENAI.finished(await again.rest())
