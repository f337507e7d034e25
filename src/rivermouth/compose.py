"""The composition root: from a configuration to a running set of services.  The only place that names adapters.

An adapter that drags a large library along (a database, an HTTP client) is imported where it is made: who does without
it starts without it, and a local model can be loading while the rest is still being imported.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from rivermouth.accounts.settings import AccountSettings
from rivermouth.chat.choice import Chooser
from rivermouth.chat.clock import LoopClock
from rivermouth.chat.ports import Ports
from rivermouth.chat.service import ChatService
from rivermouth.chat.settings import CHAT_LIMITS, ChatSettings
from rivermouth.config import Config, EndpointConfig, ProviderConfig, ProviderTimeouts
from rivermouth.dialects import discover
from rivermouth.doorbell.local import LocalDoorbell
from rivermouth.engine.deadlines import Limits
from rivermouth.engine.engine import Engine, Settings
from rivermouth.engine.interrupt import By
from rivermouth.engine.record import Recorder
from rivermouth.local.catalog import load_catalog
from rivermouth.local.places import Limits as QueueLimits
from rivermouth.local.provider import LocalProvider
from rivermouth.local.references import Pulls
from rivermouth.local.starter import Starter
from rivermouth.local.welcome import first_offer
from rivermouth.log.memory import MemoryLog
from rivermouth.observe import Metrics, watch_loop
from rivermouth.providers.provider import Provider
from rivermouth.providers.signing import Signer
from rivermouth.routing.catalog import Catalog
from rivermouth.routing.endpoint import Endpoint
from rivermouth.routing.health import Health
from rivermouth.store.datadir import DataDir
from rivermouth.store.port import CallRecord, Status

if TYPE_CHECKING:
    from rivermouth.accounts.service import Accounts

log = structlog.get_logger()

LOCAL: Final = "local"
SCRIPTED: Final = "scripted"
LOCAL_IDLE_S: Final = 180.0


class Services(msgspec.Struct, frozen=True):
    """Everything that a front (HTTP, the CLI) needs."""

    config: Config
    engine: Engine
    catalog: Catalog
    local: LocalProvider
    metrics: Metrics
    recorder: Recorder
    chat: ChatService
    chat_settings: ChatSettings
    accounts: Accounts

    def end_all(self) -> None:
        """End every call that runs, because of the shutdown."""
        self.chat.end_all()
        for call in list(self.engine.inflight):
            call.interrupt.cancel(By.SHUTDOWN)


class Ids:
    """Ids that sort by time: 48 bits of milliseconds, 80 bits of chance, as 32 hex digits.

    Chance is fetched for many ids at once: a system call for each is dearer than everything else about it.
    """

    CHANCE_CHARS: Final = 20

    def __init__(self) -> None:
        self._chance = ""

    def __call__(self) -> str:
        chance = self._chance or os.urandom(5120).hex()
        self._chance = chance[self.CHANCE_CHARS :]
        return f"{time.time_ns() // 1_000_000:012x}{chance[: self.CHANCE_CHARS]}"


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
    from rivermouth.accounts.keyring import Keyring
    from rivermouth.accounts.service import Accounts
    from rivermouth.store.accounts.sqlite import SqliteAccountStore
    from rivermouth.store.accounts.transaction import must_exist
    from rivermouth.store.chats.sqlite import SqliteChatStore
    from rivermouth.store.database import open_database
    from rivermouth.store.sqlite import SqliteCallStore

    async with AsyncExitStack() as stack:
        stack.enter_context(data.lock())
        store = await asyncio.to_thread(SqliteCallStore.open, data.database)
        stack.callback(store.dispose)
        interrupted = await asyncio.to_thread(store.interrupt_open)
        if interrupted:
            log.warning("calls.interrupted", count=interrupted)
        metrics = Metrics(models=config.models, providers=(LOCAL, SCRIPTED, *config.providers))
        recorder = await stack.enter_async_context(Recorder(store, secrets=config.secrets))
        local = local or local_provider(config, data)
        stack.push_async_callback(local.close)
        providers: dict[str, Provider] = {LOCAL: local}
        if scripted:
            from rivermouth.providers.scripted import ScriptedProvider

            providers[SCRIPTED] = ScriptedProvider()
        for provider in config.providers.values():
            providers[provider.name] = made = _provider(provider, config)
            stack.push_async_callback(made.close)
        catalog = _catalog(config, providers, own=(LOCAL, SCRIPTED) if scripted else (LOCAL,))

        def ended(final: CallRecord) -> None:
            metrics.ended(final)
            if final.status is Status.FAILED:
                log.warning(
                    "call.failed", call=final.id, kind=final.kind, provider=final.provider, reason=final.message
                )

        engine = Engine(
            catalog=catalog,
            providers=providers,
            recorder=recorder,
            settings=_settings(config),
            health=Health(enabled=config.resilience.cooldown),
            ended=ended,
        )
        metrics.inflight_from(lambda: len(engine.inflight))
        metrics.queues_from(local.pool.queues)
        watch = asyncio.create_task(watch_loop(metrics))
        stack.callback(watch.cancel)
        chats = SqliteChatStore(
            await asyncio.to_thread(open_database, data.database), clock_ns=time.time_ns, must_exist=must_exist
        )
        stack.push_async_callback(chats.close)
        settings = chat_settings(config)
        ports = Ports(
            store=chats,
            log=MemoryLog(now_s=time.monotonic),
            doorbell=LocalDoorbell(),
            clock=LoopClock(),
            engine=engine,
            chooser=_chooser(config, catalog, scripted=scripted),
            settings=settings,
            metrics=metrics.chat,
            new_id=Ids(),
        )
        chat = await stack.enter_async_context(ChatService(ports, boot_id=Ids()(), alone=True))
        people = SqliteAccountStore(await asyncio.to_thread(open_database, data.database), clock_ns=time.time_ns)
        stack.push_async_callback(people.close)
        accounts = await stack.enter_async_context(
            Accounts(
                people,
                Keyring(data.path, time.time),
                chat,
                account_settings(config),
                now_s=time.monotonic,
                unix_s=time.time,
            )
        )
        yield Services(config, engine, catalog, local, metrics, recorder, chat, settings, accounts)


def account_settings(config: Config) -> AccountSettings:
    """The accounts' part of the configuration."""
    accounts = config.accounts
    return AccountSettings(
        access_s=accounts.access_token_s,
        refresh_s=accounts.refresh_token_s,
        password_min_chars=accounts.password_min_chars,
        login_tries=accounts.login_tries,
        address_tries=accounts.address_tries,
        window_s=accounts.tries_window_s,
    )


def chat_settings(config: Config) -> ChatSettings:
    """The chat's part of the configuration."""
    chat = config.chat
    limits = msgspec.structs.replace(
        CHAT_LIMITS,
        first_token_s=chat.idle_s or CHAT_LIMITS.idle_s,
        idle_s=chat.idle_s or CHAT_LIMITS.idle_s,
        total_s=chat.total_s or CHAT_LIMITS.total_s,
    )
    offered = first_offer(load_catalog(config.local.catalog), Pulls(config.local.pulls))
    return ChatSettings(
        limits=limits,
        system_prompt=chat.system_prompt,
        models=chat.models,
        prefer_local=chat.prefer_local,
        stop_on_disconnect=chat.on_disconnect == "cancel",
        max_content_chars=chat.max_content_chars,
        offer={"model": str(offered.name), "bytes": offered.size_bytes, "license": offered.license}
        if offered is not None
        else None,
    )


def _chooser(config: Config, catalog: Catalog, *, scripted: bool) -> Chooser:
    return Chooser(
        catalog,
        providers=tuple(config.providers),
        own=(LOCAL, SCRIPTED) if scripted else (LOCAL,),
        models=config.chat.models,
        prefer_local=config.chat.prefer_local,
    )


def local_provider(config: Config, data: DataDir) -> LocalProvider:
    """The engine on this machine; nothing is loaded yet."""
    return LocalProvider(
        data.path / "models",
        keep_alive_s=config.local.keep_alive,
        max_models=config.local.max_models,
        chat_template=config.local.chat_template,
        wanted=config.local.devices,
        npu_tokens=config.local.npu_prompt_tokens,
        limits=QueueLimits(
            max_active=1 if config.local.profile == "single" else config.local.max_active,
            max_waiting=config.local.max_waiting,
            wait_s=config.local.wait_s,
        ),
        starter=Starter(check_memory=config.local.check_memory),
        kv_bytes=config.local.context_memory_bytes,
        step_s=config.local.step_s,
        catalog=load_catalog(config.local.catalog),
        pulls=Pulls(config.local.pulls),
        pull_limit_bytes=config.local.pull_limit_bytes,
    )


def _provider(config: ProviderConfig, whole: Config) -> Provider:
    if config.python is not None:
        from rivermouth.providers.python import PythonProvider

        return PythonProvider(config.name, config.python, timeout_s=config.timeouts.idle_s or whole.timeouts.idle_s)
    if config.dialect is None or config.base_url is None:
        raise TypeError(f"provider {config.name} has neither a generator nor an address")
    from rivermouth.providers.http import HttpProvider, HttpTarget

    connect_s = min(whole.timeouts.connect_s, config.timeouts.connect_s or whole.timeouts.connect_s)
    return HttpProvider(
        HttpTarget(
            name=config.name,
            dialect=discover()[config.dialect],
            base_url=config.base_url,
            api_key=config.api_key,
            headers=config.headers,
            ca_file=config.ca_file,
            connect_s=connect_s,
            quirks=tuple(sorted(config.quirks)),
            signer=_signer(config),
        )
    )


def _signer(config: ProviderConfig) -> Signer | None:
    if config.region is None:
        return None
    from rivermouth.providers.signing import SigV4

    return SigV4(config.name, region=config.region, profile=config.profile)


def _catalog(config: Config, providers: dict[str, Provider], own: tuple[str, ...]) -> Catalog:
    endpoints = {name: _endpoint(name, e) for name, e in config.endpoints.items()}
    models = {name: tuple(_resolved(ref, endpoints) for ref in m.endpoints) for name, m in config.models.items()}
    return Catalog(
        models=models,
        endpoints=endpoints.values(),
        providers=providers,
        own=own,
        default=config.default_model,
        now_s=time.monotonic,
    )


def _endpoint(name: str, config: EndpointConfig) -> Endpoint:
    return Endpoint(
        id=name,
        provider=config.provider,
        model=config.model,
        version=config.version,
        region=config.region,
        sovereignty=config.sovereignty,
        retention=config.retention,
        price=config.price,
    )


def _resolved(reference: str, endpoints: dict[str, Endpoint]) -> Endpoint:
    """An endpoint's id, or "provider/model": an endpoint without metadata."""
    known = endpoints.get(reference)
    if known is not None:
        return known
    provider, _, model = reference.partition("/")
    return Endpoint(id=reference, provider=provider, model=model)


def _settings(config: Config) -> Settings:
    times = config.timeouts
    limits = Limits(
        first_token_s=times.first_token_s,
        idle_s=times.idle_s,
        total_s=times.total_s,
        hold_s=times.hold_s,
    )
    narrower = {name: _narrowed(limits, p.timeouts) for name, p in config.providers.items()}
    own = msgspec.structs.replace(limits, idle_s=LOCAL_IDLE_S)
    block = config.routing_block
    return Settings(
        limits=limits,
        provider_limits={**narrower, LOCAL: own},
        own_idle=frozenset({LOCAL}),
        retries=config.resilience.retries,
        routing_key=block.key if block.send == "always" else None,
    )


def _narrowed(limits: Limits, timeouts: ProviderTimeouts) -> Limits:
    given = {f: v for f in limits.__struct_fields__ if (v := getattr(timeouts, f, None)) is not None}
    return msgspec.structs.replace(limits, **given)
