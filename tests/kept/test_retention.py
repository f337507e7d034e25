"""What may not be kept is not: by a policy, an endpoint, the configuration, an erasure, or when its time has come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from rivermouth.store.backup import backup, restore
from tests.engine.client import asking, calling
from tests.engine.lab import lab, until
from tests.engine.place import Place, placed
from tests.engine.words import END, PLAIN, ROLE, begin, document, provider, refusal, says
from tests.fakes import JSON
from tests.kept.asking import PATH, Before, ask, assert_missing, begun, ended, fresh, got, made, rows, text_of, wanted
from tests.kept.rows import NOBODY

pytestmark = pytest.mark.anyio

RULES: Final = """
[endpoints.plain]
provider = "up"
model = "m"
[endpoints.none]
provider = "up"
model = "m"
retention = "none"
[endpoints.mute]
provider = "up"
model = "m"
records_text = false
[models.plain]
endpoints = ["plain"]
[models.none]
endpoints = ["none"]
[models.mute]
endpoints = ["mute"]
[models.governed]
endpoints = ["none"]
policy = "none"
[models.quiet]
endpoints = ["plain"]
policy = "quiet"
[models.mixed]
endpoints = ["none", "plain"]
[policies.none]
retention_max = "none"
[policies.quiet]
records_text = false
"""


def config(url: str, more: str = "") -> str:
    return PLAIN + more + RULES + provider("up", url)


@pytest.fixture(scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    async with placed(tmp_path_factory.mktemp("retention"), config) as place:
        yield place


@pytest.fixture
async def place(shared: Place) -> Place:
    return await fresh(shared)


@pytest.fixture(autouse=True)
def from_nothing() -> Iterator[None]:
    """Whoever makes a server of its own begins with none of these."""
    yield
    Before.records = Before.rows = 0


@pytest.mark.parametrize("model", ["none", "mute", "governed", "quiet"])
async def test_what_a_policy_or_an_endpoint_forbids_is_not_kept_and_says_so(place: Place, model: str) -> None:
    response, _ = await made(place, model=model, store=True)
    assert response["store"] is False
    await assert_missing(place.server, response["id"])
    status, refused = await ask(place.server, "POST", body=wanted(model, background=True))
    assert (status, refused["error"]["param"], refused["error"]["code"]) == (400, "background", "not_kept")
    assert rows(place.server) == 0


async def test_a_policy_of_the_request_alone_forbids_it_too(place: Place) -> None:
    headers = {"x-rivermouth-policy": "quiet"}
    response, _ = await made(place, headers=headers, model="plain")
    assert response["store"] is False
    assert rows(place.server) == 0
    status, _ = await ask(place.server, "POST", body=wanted("plain", background=True), headers=headers)
    assert status == 400


async def test_one_attempt_that_forbids_it_is_enough(place: Place) -> None:
    """What was sent to an endpoint that keeps nothing is not kept here because another one answered."""
    async with calling(place.server.port, PATH, wanted("mixed")) as client:
        await (await place.asked()).answer(500, JSON, refusal("first"))
        await (await place.asked()).answer(200, JSON, document("from the other"))
        response = await (await client.answer()).json()
        assert (response["store"], text_of(response)) == (False, "from the other")
        await assert_missing(place.server, response["id"])


async def test_in_the_background_only_those_are_asked_who_let_it_be_kept(place: Place) -> None:
    response, asked = await begun(place, model="mixed")
    await begin(asked, ROLE, says("one"))
    await asked.end(END)
    assert text_of(await ended(place.server, response["id"])) == "one"
    record = await place.server.record(response["id"].removeprefix("resp_"))
    assert [a.endpoint_id for a in record.attempts] == ["plain"]


async def test_where_nothing_is_to_be_kept_nothing_is(tmp_path: Path) -> None:
    async with placed(tmp_path, lambda url: config(url, "[responses]\nstore = false\n")) as place:
        response, _ = await made(place, model="plain", store=True)
        assert response["store"] is False
        await assert_missing(place.server, response["id"])
        status, refused = await ask(place.server, "POST", body=wanted("plain", background=True))
        assert (status, refused["error"]["param"]) == (400, "background")


async def test_its_time_is_as_long_as_the_shortest_that_was_said(tmp_path: Path) -> None:
    short = '[responses]\nttl = "2d"\n'
    async with placed(
        tmp_path, lambda url: config(url, short).replace('retention = "none"', 'retention = "3h"')
    ) as place:
        for model, hours in (("plain", 48), ("none", 3)):
            response, _ = await made(place, model=model)
            store = place.server.inside.services.kept._store
            kept = await place.server.run(store.chain(response["id"], NOBODY, 0, 1, 0))
            assert kept[0].expires_ns - kept[0].created_ns == hours * 3600 * 10**9


async def test_what_a_user_wants_erased_is_gone_with_the_records(place: Place) -> None:
    mine, _ = await made(place, model="plain", user="zoe")
    other, _ = await made(place, model="plain", user="ada")
    await place.server.record(mine["id"].removeprefix("resp_"))
    await place.server.record(other["id"].removeprefix("resp_"))
    async with asking(place.server.port, "/platform/v1/users/zoe/data", None, method="DELETE") as answer:
        assert await answer.json() == {"calls": 1, "texts": 0, "answers": 1, "running": 0}
    await assert_missing(place.server, mine["id"])
    assert await got(place.server, other["id"]) == other


async def test_a_backup_has_it(tmp_path: Path) -> None:
    async with placed(tmp_path, config) as place:
        response, _ = await made(place, model="plain")
        saved = tmp_path / "saved.db"
        backup(place.server.data_path / "rivermouth.db", saved)
        await ask(place.server, "DELETE", f"/{response['id']}")
        await assert_missing(place.server, response["id"])
        place.server.stop()
        await until(lambda: place.server.over, "the server has stopped")
    restore(saved, tmp_path / "data" / "rivermouth.db")
    with lab(tmp_path, PLAIN) as again:
        assert await got(again, response["id"]) == response
