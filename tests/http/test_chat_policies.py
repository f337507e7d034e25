"""A chat keeps to the policies of what it asks, whichever way the model was chosen and however many fail."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from rivermouth.ir.errors import Kind
from tests.chat.lab import read_frames, tokens
from tests.engine.client import asking
from tests.engine.place import Place, placed
from tests.engine.words import END, ROLE, begin, provider, refusal, says
from tests.fakes import JSON, Asked

pytestmark = pytest.mark.anyio

WORLD: Final = """
[resilience]
retries = 0
cooldown = false
[chat.models]
up = "m"
[policies.eu]
regions = ["eu-*"]
[models."up/m"]
endpoints = ["us", "refuses", "answers"]
policy = "eu"
[models.m]
endpoints = ["refuses", "us", "answers"]
policy = "eu"
[models.lost]
endpoints = ["refuses", "us"]
policy = "eu"
[models.abroad]
endpoints = ["us"]
policy = "eu"
"""


class Witness:
    """The upstream: it notes whom a chat has asked, and does what the model's name says."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, asked: Asked) -> None:
        if asked.method == "GET":
            await asked.answer(200, JSON, b'{"object":"list","data":[]}')
            return
        model = json.loads(asked.body)["model"]
        self.asked.append(model)
        if model == "refuses":
            await asked.answer(503, JSON, refusal("no"))
        else:
            await begin(asked, ROLE, says(f"from {model}"))
            await asked.end(END)


def config(url: str, more: str = "") -> str:
    regions = {"us": "us-east", "refuses": "eu-west", "answers": "eu-north"}
    endpoints = (
        f"[endpoints.{name}]\nprovider = 'up'\nmodel = '{name}'\nregion = '{region}'\n"
        for name, region in regions.items()
    )
    return provider("up", url) + WORLD + "".join(endpoints) + more


@asynccontextmanager
async def world(folder: Path, more: str = "") -> AsyncIterator[tuple[Place, Witness]]:
    witness = Witness()
    async with placed(folder, lambda url: config(url, more), witness) as place:
        yield place, witness


async def said(place: Place, choice: str) -> list[dict[str, Any]]:
    """The frames of one answer."""
    port = place.server.port
    async with asking(port, "/api/chats", {}) as answer:
        chat = (await answer.json())["chatId"]
    async with asking(port, f"/api/chats/{chat}/stream", {"content": "hello", "model": choice}) as answer:
        assert answer.status == 200
        return read_frames(await answer.rest())


@pytest.mark.promise(57, 66)
@pytest.mark.parametrize("choice", ["up", "auto", "m", "up/m"])
async def test_every_endpoint_of_the_name_that_its_policy_allows_is_tried_and_no_other(
    tmp_path: Path, choice: str
) -> None:
    async with world(tmp_path) as (place, witness):
        assert tokens(await said(place, choice)) == "from answers"
        assert witness.asked == ["refuses", "answers"]
        record = await place.server.last()
    assert record.policy_id == "eu"
    assert {d.candidate for d in record.decisions if not d.allowed} == {"us"}


@pytest.mark.promise(57)
async def test_an_answer_fails_before_it_leaves_the_policy(tmp_path: Path) -> None:
    async with world(tmp_path) as (place, witness):
        frames = await said(place, "lost")
        assert frames[-1]["event"] == "error"
        assert witness.asked == ["refuses"]
        assert (await said(place, "abroad"))[-1]["event"] == "error"
        assert witness.asked == ["refuses"]
        record = await place.server.last()
    assert (record.kind, record.attempts) == (Kind.PERMISSION, ())


@pytest.mark.promise(57)
async def test_the_policy_of_the_whole_server_holds_for_chats(tmp_path: Path) -> None:
    async with world(tmp_path, '[policies.none]\nproviders = []\n[server]\npolicy = "none"\n') as (place, witness):
        for choice in ("auto", "up", "m", "up/answers"):
            assert (await said(place, choice))[-1]["event"] == "error"
        assert witness.asked == []
