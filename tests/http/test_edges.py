"""Requests that once went wrong at the edge: each is answered in its dialect's words, and nothing crashes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from rivermouth.http.sink import IGNORED_CHARS
from rivermouth.store.port import CallRecord, CallText, Checkpoint, Status, StoreError
from rivermouth.store.sqlite import SqliteCallStore
from tests.engine.client import asking, connected
from tests.engine.lab import Lab, lab
from tests.engine.words import ALL, ANTHROPIC, OPENAI, PLAIN, Speaks, talk

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("edges"), PLAIN) as made:
        yield made


async def test_a_talk_of_nothing_but_instructions_is_answered(server: Lab) -> None:
    body = {"model": "scripted", "messages": [{"role": "system", "content": "be brief"}]}
    async with asking(server.port, OPENAI.path, body) as answer:
        assert answer.status == 200
        assert OPENAI.whole(await answer.json())
    assert (await server.last()).status is Status.COMPLETED


async def test_an_empty_talk_is_refused_where_it_cannot_mean_loading_a_model(server: Lab) -> None:
    body = {"model": "scripted", "max_tokens": 9, "messages": [{"role": "user", "content": ""}]}
    async with asking(server.port, ANTHROPIC.path, body) as answer:
        assert answer.status == 400
        assert "messages" in ANTHROPIC.refused(await answer.json())


@pytest.mark.parametrize("path", ["/v1%2Fmodels", "/v1%2Fchat/completions", "/%76%31/models"])
async def test_a_path_that_only_looks_like_ours_is_not_found(server: Lab, path: str) -> None:
    async with connected(server.port) as client:
        answer = await client.ask("GET", path)
        assert answer.status == 404


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "null", "://"])
async def test_an_origin_that_is_none_is_a_strangers(server: Lab, origin: str) -> None:
    async with connected(server.port) as client:
        answer = await client.ask("GET", "/v1/models", headers={"origin": origin})
        assert answer.status == 403


@pytest.mark.parametrize("name", ["a\r\nset-cookie: b=c", "snow☃", "x" * 5000])
async def test_a_name_that_the_client_made_up_does_not_reach_a_header(server: Lab, name: str) -> None:
    async with asking(server.port, OPENAI.path, talk("scripted", **{name: 1, "odd_field": 2})) as answer:
        assert answer.status == 200
        ignored = answer.headers["x-rivermouth-ignored"]
        assert "odd_field" in ignored
        assert name not in ignored
        assert "set-cookie" not in answer.headers


async def test_many_unknown_fields_make_one_short_header(server: Lab) -> None:
    many = {f"field_{number}": number for number in range(3000)}
    async with asking(server.port, OPENAI.path, talk("scripted", **many)) as answer:
        assert answer.status == 200
        assert len(answer.headers["x-rivermouth-ignored"]) <= IGNORED_CHARS


@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_a_models_name_has_a_bound(server: Lab, speaks: Speaks) -> None:
    async with asking(server.port, speaks.path, talk("m" * 100_000)) as answer:
        assert answer.status == 400
        assert "model" in speaks.refused(await answer.json())
        assert len(answer.body) < 2000


@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_a_call_that_cannot_be_recorded_is_nobodys_fault_but_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, speaks: Speaks
) -> None:
    write = SqliteCallStore.write

    def write_ends_only(
        store: SqliteCallStore,
        opens: Sequence[CallRecord],
        marks: Sequence[Checkpoint],
        closes: Sequence[CallRecord],
        texts: Sequence[CallText] = (),
    ) -> int:
        if opens:
            raise StoreError("database or disk is full", passing=True)
        return write(store, opens, marks, closes, texts)

    monkeypatch.setattr(SqliteCallStore, "write", write_ends_only)
    with lab(tmp_path, PLAIN) as server:
        async with asking(server.port, speaks.path, talk("scripted")) as answer:
            assert answer.status in (503, 529)
            refused: Any = speaks.refused(await answer.json())
            assert "could not be recorded" in refused
            assert "scripted" not in refused
        await server.idle()


@pytest.mark.parametrize("name", ["m" * 5000, "a%00b", "a%0d%0ab"])
async def test_so_has_one_in_a_path(server: Lab, name: str) -> None:
    async with connected(server.port) as client:
        answer = await client.ask("GET", f"/v1/models/{name}")
        assert answer.status == 400
        assert len(await answer.rest()) < 2000
