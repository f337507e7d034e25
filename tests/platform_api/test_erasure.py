"""One person's data, taken out of the records: what is left says what was used, and not by whom."""

from __future__ import annotations

from typing import Any, Final

import pytest

from rivermouth.store.archive import Erased
from rivermouth.store.port import CallFilter, StoreError
from rivermouth.store.sqlite_archive import SqliteCallArchive
from tests.engine.words import ANTHROPIC, talk
from tests.platform_api.office import Office

pytestmark = pytest.mark.anyio

CAROL: Final = "carol@example.org"


async def totals(place: Office) -> Any:
    return (await place.get("/platform/v1/usage?group_by=model&group_by=status"))["total"]


async def test_a_users_calls_lead_nowhere_and_every_sum_stays(place: Office):
    carols = [
        await place.call(body={**talk("gpt-x", stream=False), "user": CAROL}),
        await place.call(
            path=ANTHROPIC.path, body={**talk("gpt-x", stream=False), "metadata": {"user_id": CAROL}}, who="other"
        ),
    ]
    dora = await place.call(body={**talk("gpt-x", stream=False), "user": "dora@example.org"})
    told = [await place.get(f"/platform/v1/calls/{call.call_id}") for call in (*carols, dora)]
    assert told[0]["end_user"] == told[1]["end_user"] != told[2]["end_user"]
    assert "carol" not in told[0]["end_user"]
    before = await totals(place)
    status, gone = await place.ask("DELETE", f"/platform/v1/users/{CAROL}/data")
    assert (status, gone) == (200, {"calls": 2, "texts": 2, "answers": 0, "running": 0})
    assert await totals(place) == before
    for call, old in zip(carols, told, strict=False):
        left = await place.get(f"/platform/v1/calls/{call.call_id}")
        assert left["erased"] is True
        assert (left["end_user"], left["text"], left["key_name"]) == (None, None, "(erased)")
        assert (left["cost"], left["tokens"], left["routing"]) == (old["cost"], old["tokens"], old["routing"])
    assert await place.get(f"/platform/v1/calls/{dora.call_id}") == told[2]
    (entry,) = (await place.get("/platform/v1/changes?limit=1"))["data"]
    assert (entry["who"], entry["action"], entry["after"]) == (
        "key:ann",
        "data.erased_of_user",
        {"calls": 2, "texts": 2, "answers": 0},
    )
    assert "carol" not in str(entry), "the log of changes stays, and would be the last place that knows"


async def test_a_failed_erasure_does_not_name_whom_it_is_about(place: Office, monkeypatch: pytest.MonkeyPatch):
    def busy(archive: SqliteCallArchive, where: CallFilter) -> Erased:
        raise StoreError("database is locked", passing=True)

    monkeypatch.setattr(SqliteCallArchive, "erase", busy)
    assert (await place.ask("DELETE", f"/platform/v1/users/{CAROL}/data"))[0] == 503
    told = [line for line in place.server.log if line["event"] == "platform.store_failed"]
    assert [line["path"] for line in told] == ["/platform/v1/users/{user}/data"]
    assert "carol" not in str(place.server.log)


async def test_a_user_of_keys_is_erased_with_their_calls(place: Office):
    """`[keys.bob]` is marked as this user's."""
    await place.call("user")
    other = await place.call("other")
    status, gone = await place.ask("DELETE", "/platform/v1/users/bob@example.org/data")
    assert status == 200
    assert gone["calls"] >= 1
    assert (await place.get("/platform/v1/calls?key_name=bob"))["data"] == []
    assert (await place.get(f"/platform/v1/calls/{other.call_id}"))["key_name"] == "eve"


async def test_a_keys_data_is_erased_by_its_name(place: Office):
    await place.call("other")
    status, gone = await place.ask("DELETE", "/platform/v1/keys/eve/data")
    assert status == 200
    assert gone["calls"] >= 1
    assert (await place.get("/platform/v1/calls?key_name=eve"))["data"] == []
    assert (await place.ask("DELETE", "/platform/v1/keys/eve/data"))[1] == {
        "calls": 0,
        "texts": 0,
        "answers": 0,
        "running": 0,
    }
    assert (await place.ask("DELETE", "/platform/v1/users/nobody/data"))[1] == {
        "calls": 0,
        "texts": 0,
        "answers": 0,
        "running": 0,
    }


async def test_a_name_with_any_characters_can_be_erased(place: Office):
    name = "team/\U0001f30a?x=%2F"
    call = await place.call(body={**talk("gpt-x", stream=False), "user": name})
    status, gone = await place.ask("POST", "/platform/v1/erasures", "admin", {"user": name})
    assert (status, gone) == (200, {"calls": 1, "texts": 1, "answers": 0, "running": 0})
    assert (await place.get(f"/platform/v1/calls/{call.call_id}"))["erased"] is True
