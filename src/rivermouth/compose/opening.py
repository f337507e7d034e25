"""A configuration's running services: opened in this order, and closed in the opposite one."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, cast

import msgspec
import structlog

from rivermouth.chat.choice import Chooser
from rivermouth.chat.clock import LoopClock
from rivermouth.chat.ports import Ports
from rivermouth.chat.service import ChatService
from rivermouth.chat.settings import ChatSettings
from rivermouth.compose.ids import Ids
from rivermouth.compose.maker import Maker
from rivermouth.compose.observing import introduce, observers_of, waiting_records
from rivermouth.compose.providers import local_provider, own_providers
from rivermouth.compose.settings import (
    account_settings,
    chat_settings,
    kept_terms,
    local_wishes,
    log_settings,
)
from rivermouth.config import Config
from rivermouth.dialects import discover
from rivermouth.doorbell.local import LocalDoorbell
from rivermouth.editions import CurrentChooser, CurrentEngine, Edition, Editions
from rivermouth.engine.call import Call
from rivermouth.engine.engine import Engine
from rivermouth.engine.interrupt import By
from rivermouth.engine.logged import LoggedCalls
from rivermouth.engine.record import Recorder
from rivermouth.kept.service import KeptAnswers
from rivermouth.local.provider import LocalProvider
from rivermouth.log.memory import MemoryLog
from rivermouth.observe import Metrics, Observers, watch_loop
from rivermouth.platform.gate import PlatformGate
from rivermouth.platform.keyring import KeyRing
from rivermouth.platform.retention import Janitor
from rivermouth.platform.service import PlatformService
from rivermouth.routing.catalog import Catalog
from rivermouth.store.archive import CallArchive
from rivermouth.store.datadir import DataDir
from rivermouth.store.pseudonyms import FACT as END_USER_KEY
from rivermouth.store.pseudonyms import Pseudonyms

if TYPE_CHECKING:
    from rivermouth.accounts.service import Accounts
    from rivermouth.store.sqlite import SqliteCallStore
    from rivermouth.store.sqlite_archive import SqliteCallArchive

log = structlog.get_logger()


class Services(msgspec.Struct, frozen=True):
    """Everything that a front (HTTP, the CLI) needs.  What is made of the configuration is in an edition."""

    editions: Editions
    maker: Maker
    local: LocalProvider
    metrics: Metrics
    recorder: Recorder
    logged: LoggedCalls
    kept: KeptAnswers
    chat: ChatService
    chat_settings: ChatSettings
    accounts: Accounts
    observers: Observers
    platform: PlatformService
    archive: CallArchive
    pseudonyms: Pseudonyms
    janitor: Janitor

    @property
    def config(self) -> Config:
        """The configuration with which calls begin now."""
        return self.editions.current.config

    @property
    def engine(self) -> Engine:
        """The engine in which calls begin now."""
        return self.editions.current.engine

    @property
    def catalog(self) -> Catalog:
        return self.editions.current.catalog

    def inflight(self) -> Iterator[Call]:
        """Every call that runs, also with the settings of before a reload."""
        return self.editions.inflight()

    def adopt(self, edition: Edition) -> None:
        """From now on new calls begin in this edition of `maker`, which never fails; running ones go on in theirs."""
        self.editions.replace(edition)
        config = edition.config
        secrets = (secret for living in self.editions.living() for secret in living.config.secrets)
        self.recorder.secrets = tuple(dict.fromkeys(secrets))
        introduce(self.observers, config, self.recorder.secrets)
        self.local.adopt(local_wishes(config))
        self.logged.adopt(log_settings(config))
        self.kept.adopt(kept_terms(config))
        self.platform.adopt(config)
        self.accounts.adopt(account_settings(config))
        self.janitor.wake()

    def end_all(self) -> None:
        """End every call that runs, because of the shutdown."""
        self.chat.end_all()
        for call in self.inflight():
            call.interrupt.cancel(By.SHUTDOWN)


@asynccontextmanager
async def services(
    config: Config, data: DataDir, *, scripted: bool = False, local: LocalProvider | None = None
) -> AsyncIterator[Services]:
    """Open them all, and close them in the opposite order: nothing recorded is lost.

    local: an engine made by `local_provider` that is to be used, and closed, instead of a new one.
    Takes the data directory for this process and ends the calls that a killed server left open.
    Raises `DataDirBusy`, `StoreError`, `ConfigError`.
    """
    await asyncio.to_thread(import_module, "rivermouth.accounts.service")  # signing takes a moment to import
    async with AsyncExitStack() as stack:
        stack.enter_context(data.lock())
        store = await _records(stack, data)
        metrics = Metrics()
        observers = observers_of(config, metrics)
        introduce(observers, config, config.secrets)
        observers.start()
        stack.push_async_callback(asyncio.to_thread, observers.close)
        recorder = await stack.enter_async_context(Recorder(store, secrets=config.secrets))
        gate = PlatformGate()
        platform = await _platform(stack, config, data, gate, recorder)
        local = local or local_provider(config, data)
        stack.push_async_callback(local.close)
        maker = Maker(own_providers(local, scripted=scripted), recorder, observers, gate)
        editions = await stack.enter_async_context(Editions(maker.edition(config)))
        kept = await _kept_answers(stack, config, data)  # closed when the calls are over that write there
        logged = await stack.enter_async_context(LoggedCalls(log_settings(config)))
        metrics.logs_from(logged.statistics)
        metrics.inflight_from(lambda: sum(1 for _ in editions.inflight()))
        metrics.queues_from(local.pool.queues)
        metrics.breakers_from(maker.breakers)
        metrics.backlog_from("records", lambda: waiting_records(recorder))
        watch = asyncio.create_task(watch_loop(metrics))
        stack.callback(watch.cancel)
        settings = chat_settings(config)
        chat = await _chat(stack, settings, data, editions, metrics)
        accounts = await _accounts(stack, config, data, chat)
        archive = await asyncio.to_thread(_archive, data)
        stack.callback(archive.dispose)
        pseudonyms = Pseudonyms(await asyncio.to_thread(archive.fact, END_USER_KEY, os.urandom(32).hex()))
        janitor = Janitor(archive, lambda: editions.current.config, now_ns=time.time_ns)
        cleaning = asyncio.create_task(janitor.run())
        stack.push_async_callback(_ended, cleaning)
        yield Services(
            editions=editions,
            maker=maker,
            local=local,
            metrics=metrics,
            recorder=recorder,
            logged=logged,
            kept=kept,
            chat=chat,
            chat_settings=settings,
            accounts=accounts,
            observers=observers,
            platform=platform,
            archive=archive,
            pseudonyms=pseudonyms,
            janitor=janitor,
        )


async def _records(stack: AsyncExitStack, data: DataDir) -> SqliteCallStore:
    """The store of records, in which nothing is open: what a killed server left so is interrupted."""
    from rivermouth.store.sqlite import SqliteCallStore

    store = await asyncio.to_thread(SqliteCallStore.open, data.database)
    stack.callback(store.dispose)
    interrupted = await asyncio.to_thread(store.interrupt_open)
    if interrupted:
        log.warning("calls.interrupted", count=interrupted)
    return store


async def _platform(
    stack: AsyncExitStack, config: Config, data: DataDir, gate: PlatformGate, recorder: Recorder
) -> PlatformService:
    from rivermouth.store.database import open_database
    from rivermouth.store.platform.sqlite import SqlitePlatformStore

    store = SqlitePlatformStore(await asyncio.to_thread(open_database, data.database))
    service = PlatformService(store, config, ring=KeyRing(), gate=gate, flush=recorder.flush)
    return await stack.enter_async_context(service)


async def _kept_answers(stack: AsyncExitStack, config: Config, data: DataDir) -> KeptAnswers:
    from rivermouth.store.database import open_database
    from rivermouth.store.kept.sqlite import SqliteKeptStore

    store = SqliteKeptStore(await asyncio.to_thread(open_database, data.database))
    return await stack.enter_async_context(KeptAnswers(store, kept_terms(config), discover(), clock_ns=time.time_ns))


async def _chat(
    stack: AsyncExitStack, settings: ChatSettings, data: DataDir, editions: Editions, metrics: Metrics
) -> ChatService:
    from rivermouth.store.accounts.transaction import must_exist
    from rivermouth.store.chats.sqlite import SqliteChatStore
    from rivermouth.store.database import open_database

    engine = await asyncio.to_thread(open_database, data.database)
    store = SqliteChatStore(engine, clock_ns=time.time_ns, must_exist=must_exist)
    stack.push_async_callback(store.close)
    ports = Ports(
        store=store,
        log=MemoryLog(now_s=time.monotonic),
        doorbell=LocalDoorbell(),
        clock=LoopClock(),
        engine=cast("Engine", CurrentEngine(editions)),
        chooser=cast("Chooser", CurrentChooser(editions)),
        settings=settings,
        metrics=metrics.chat,
        new_id=Ids(),
    )
    return await stack.enter_async_context(ChatService(ports, boot_id=Ids()(), alone=True))


async def _accounts(stack: AsyncExitStack, config: Config, data: DataDir, chat: ChatService) -> Accounts:
    from rivermouth.accounts.keyring import Keyring
    from rivermouth.accounts.service import Accounts
    from rivermouth.store.accounts.sqlite import SqliteAccountStore
    from rivermouth.store.database import open_database

    store = SqliteAccountStore(await asyncio.to_thread(open_database, data.database), clock_ns=time.time_ns)
    stack.push_async_callback(store.close)
    keyring, settings = Keyring(data.path, time.time), account_settings(config)
    return await stack.enter_async_context(
        Accounts(store, keyring, chat, settings, now_s=time.monotonic, unix_s=time.time)
    )


def _archive(data: DataDir) -> SqliteCallArchive:
    from rivermouth.store.sqlite_archive import SqliteCallArchive

    return SqliteCallArchive.open(data.database)


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancelled, and over."""
    task.cancel()
    await asyncio.wait({task})
