"""What may be kept, and for how long: decided by a pure function, done by a janitor on a clock of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rivermouth.config import Config, EndpointConfig, PolicyConfig, RecordsConfig, ResponsesConfig
from rivermouth.config.load import parse
from rivermouth.config.problems import ConfigError
from rivermouth.platform.retention import EVERY_S, Janitor, keeping
from rivermouth.store.archive import Keeping, Purged
from rivermouth.store.port import NANO, CallText, Said, StoreError
from rivermouth.store.sqlite import SqliteCallStore
from rivermouth.store.sqlite_archive import SqliteCallArchive
from tests.engine.lab import lab, until
from tests.platform_api.office import CONFIG, Office
from tests.store.records import ended, opened

pytestmark = pytest.mark.anyio

DAY_S = 86_400


def config(**records: str) -> Config:
    return Config(records=RecordsConfig(**records))  # type: ignore[arg-type]


def test_what_may_be_there_is_what_the_configuration_says():
    now_ns = 100 * DAY_S * NANO
    answers = {"answers_since_ns": 70 * DAY_S * NANO, "now_ns": now_ns}
    assert keeping(config(), now_ns) == Keeping(texts=False, texts_since_ns=70 * DAY_S * NANO, **answers)
    assert keeping(config(text="all", text_retention="2d", retention="1w"), now_ns) == Keeping(
        texts=True, texts_since_ns=98 * DAY_S * NANO, calls_since_ns=93 * DAY_S * NANO, **answers
    )
    mute = Config(
        records=RecordsConfig(text="all"),
        policies={"loud": PolicyConfig(), "mute": PolicyConfig(records_text=False)},
        endpoints={
            "loud": EndpointConfig(provider="p", model="m"),
            "mute": EndpointConfig(provider="p", model="m", records_text=False),
        },
    )
    said = keeping(mute, now_ns)
    assert (said.mute_policies, said.mute_endpoints) == (("mute",), ("mute",))


def test_answers_may_be_there_as_long_as_nobody_who_had_them_says_less():
    now_ns = 100 * DAY_S * NANO
    brief = Config(
        responses=ResponsesConfig(store=False, ttl="1d"),
        policies={"free": PolicyConfig(), "none": PolicyConfig(retention_max="none")},
        endpoints={
            "free": EndpointConfig(provider="p", model="m"),
            "brief": EndpointConfig(provider="p", model="m", retention="2d"),
            "vague": EndpointConfig(provider="p", model="m", retention="as long as it takes"),
        },
    )
    said = keeping(brief, now_ns)
    assert (said.answers, said.answers_since_ns) == (False, 99 * DAY_S * NANO)
    assert said.answers_of_policies == {"none": now_ns}
    assert said.answers_of_endpoints == {"brief": 98 * DAY_S * NANO}


@pytest.mark.parametrize("text", ["retention = 'for ever'", "retention = '0d'", "text_retention = 30", "text = 'some'"])
def test_a_time_that_is_none_is_refused(text: str):
    with pytest.raises(ConfigError):
        parse(f"[records]\n{text}\n", "rivermouth.toml", {}, frozenset())


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now_s = 100 * DAY_S
        self.waiting: asyncio.Queue[float] = asyncio.Queue()
        self.passed = asyncio.Event()

    def now_ns(self) -> int:
        return self.now_s * NANO

    async def wait(self, changed: asyncio.Event, seconds: float) -> None:
        """Returns when the time has passed, or something has changed."""
        self.passed.clear()
        self.waiting.put_nowait(seconds)
        waits = [asyncio.ensure_future(event.wait()) for event in (self.passed, changed)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def idle(self) -> float:
        """Returns when the janitor waits, and for how long it would."""
        async with asyncio.timeout(10):
            return await self.waiting.get()


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[tuple[SqliteCallStore, SqliteCallArchive]]:
    path = tmp_path / "rivermouth.db"
    store, archive = SqliteCallStore.open(path), SqliteCallArchive.open(path)
    yield store, archive
    store.dispose()
    archive.dispose()


async def test_it_looks_at_the_start_each_hour_and_after_each_change(
    stores: tuple[SqliteCallStore, SqliteCallArchive],
):
    store, archive = stores
    clock = Clock()
    wanted = config(text="all", text_retention="2d", retention="7d")
    began_ns = clock.now_ns() - 2 * DAY_S * NANO + 1800 * NANO  # its text has half an hour left
    for number, started_ns in ((1, began_ns), (2, clock.now_ns())):
        call = opened(number, started_ns=started_ns)
        store.write((), (), [ended(call)], [CallText(call.id, started_ns, (Said("user", "hi"),), "ho")])
    janitor = Janitor(archive, lambda: wanted, now_ns=clock.now_ns, wait=clock.wait)
    task = asyncio.create_task(janitor.run())
    try:
        assert await clock.idle() == EVERY_S
        assert archive.text(opened(1).id) is not None
        clock.now_s += int(EVERY_S)
        clock.passed.set()
        await clock.idle()
        assert archive.text(opened(1).id) is None
        assert archive.text(opened(2).id) is not None
        wanted = config(text="none", retention="7d")
        janitor.wake()
        await clock.idle()
        assert archive.text(opened(2).id) is None
        assert archive.get(opened(1).id) is not None
        clock.now_s += 5 * DAY_S
        clock.passed.set()
        await clock.idle()
        assert archive.get(opened(1).id) is None
        assert archive.get(opened(2).id) is not None
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_a_store_that_cannot_do_it_now_is_asked_again(
    stores: tuple[SqliteCallStore, SqliteCallArchive], monkeypatch: pytest.MonkeyPatch
):
    store, archive = stores
    store.close([ended(opened(1))])
    janitor = Janitor(archive, lambda: config(retention="1d"), now_ns=lambda: 100 * DAY_S * NANO)

    def busy(archive: SqliteCallArchive, keeping: Keeping) -> Purged:
        raise StoreError("database is locked", passing=True)

    with monkeypatch.context() as patch:
        patch.setattr(SqliteCallArchive, "purge", busy)
        assert await janitor.purge() == Purged(0, 0)
    assert await janitor.purge() == Purged(calls=1, texts=0)


async def test_what_a_reload_forbids_is_gone(tmp_path: Path):
    """A policy that is made mute silences what was said before."""
    with lab(tmp_path, CONFIG, reloads=True) as server:
        place = Office(server)
        kept, muted = await place.call("other"), await place.call("user")
        for call in (kept, muted):
            assert (await place.get(f"/platform/v1/calls/{call.call_id}"))["text"] is not None
        await server.reload(CONFIG.replace("[policies.europe]", "[policies.europe]\nrecords_text = false"))
        archive = SqliteCallArchive.reader(server.data_path / "rivermouth.db")
        await until(lambda: archive.text(muted.call_id) is None, "the text is gone")
        archive.dispose()
        assert (await place.get(f"/platform/v1/calls/{kept.call_id}"))["text"] is not None
        again = await place.call("user")
        assert (await place.get(f"/platform/v1/calls/{again.call_id}"))["text"] is None


async def test_nothing_is_kept_unless_it_is_asked_for(tmp_path: Path):
    """Not in a record, not in the database, not in its log."""
    secret = "a mellifluous quokka"
    with lab(tmp_path, CONFIG.replace('text = "all"', "")) as server:
        place = Office(server)
        body = {"model": "gpt-x", "messages": [{"role": "user", "content": secret}], "stream": False}
        answer = await place.call(body=body)
        assert secret.encode() in answer.body
        assert (await place.get(f"/platform/v1/calls/{answer.call_id}"))["text"] is None
    assert not any(secret.encode() in file.read_bytes() for file in (tmp_path / "data").rglob("*") if file.is_file())
