"""Where calls go: the adapter for each provider of a configuration, and those that every server has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from rivermouth.compose.routes import catalog_of
from rivermouth.compose.settings import (
    LOCAL,
)
from rivermouth.config import Config, ProviderConfig
from rivermouth.dialects import discover
from rivermouth.local.machine.places import Limits as QueueLimits
from rivermouth.local.machine.starter import Starter
from rivermouth.local.models.catalog import load_catalog
from rivermouth.local.models.references import Pulls
from rivermouth.local.provider import LocalProvider
from rivermouth.providers.outbound import Outbound, configured
from rivermouth.providers.provider import Provider
from rivermouth.providers.signing import Signer
from rivermouth.routing.catalog import Catalog
from rivermouth.store.datadir import DataDir

SCRIPTED: Final = "scripted"


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
        outbound=configured(config.outbound),
    )


def own_providers(local: LocalProvider, *, scripted: bool) -> dict[str, Provider]:
    """Those that no configuration names."""
    own: dict[str, Provider] = {LOCAL: local}
    if scripted:
        from rivermouth.providers.scripted import ScriptedProvider

        own[SCRIPTED] = ScriptedProvider()
    return own


def pullable(own: Mapping[str, Provider]) -> frozenset[str]:
    """The names that can be pulled for the engine on this machine."""
    local = own.get(LOCAL)
    return local.puller.names if isinstance(local, LocalProvider) else frozenset()


def provider_of(config: ProviderConfig, whole: Config) -> Provider:
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
            outbound=_outbound(config, whole),
            connect_s=connect_s,
            quirks=tuple(sorted(config.quirks)),
            signer=_signer(config),
            key_header=config.key_header,
            api_version=config.api_version,
        )
    )


def _outbound(config: ProviderConfig, whole: Config) -> Outbound:
    """The way out as everybody has it; a proxy of its own is not spared anybody."""
    common = configured(whole.outbound)
    return common if config.proxy is None else msgspec.structs.replace(common, proxy=config.proxy, no_proxy=())


def _signer(config: ProviderConfig) -> Signer | None:
    if config.region is None:
        return None
    from rivermouth.providers.signing import SigV4

    return SigV4(config.name, region=config.region, profile=config.profile)


@asynccontextmanager
async def catalogue(config: Config, data: DataDir, *, scripted: bool = False) -> AsyncIterator[Catalog]:
    """The catalogue of a server with this configuration, without the server."""
    providers = own_providers(local_provider(config, data), scripted=scripted)
    own = tuple(providers)
    providers |= {name: provider_of(provider, config) for name, provider in config.providers.items()}
    try:
        yield catalog_of(config, providers, own=own, pullable=pullable(providers))
    finally:
        for provider in providers.values():
            await provider.close()
