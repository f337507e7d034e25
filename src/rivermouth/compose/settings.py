"""What each part takes from the configuration, in the part's own words."""

from __future__ import annotations

from typing import Final

import msgspec

from rivermouth.accounts.settings import AccountSettings
from rivermouth.chat.settings import CHAT_LIMITS, ChatSettings
from rivermouth.compose.routes import policies_of
from rivermouth.config import FOREVER, Config, ProviderTimeouts, Retention
from rivermouth.engine.deadlines import Limits
from rivermouth.engine.engine import Settings
from rivermouth.engine.logged import LogSettings
from rivermouth.kept.terms import Terms
from rivermouth.local.models.catalog import load_catalog
from rivermouth.local.models.references import Pulls
from rivermouth.local.models.welcome import first_offer
from rivermouth.local.provider import Wishes
from rivermouth.providers.outbound import configured

LOCAL: Final = "local"
LOCAL_IDLE_S: Final = 180.0


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


def local_wishes(config: Config) -> Wishes:
    """What of the engine on this machine may change while it runs."""
    local = config.local
    return Wishes(
        keep_alive_s=local.keep_alive,
        max_models=local.max_models,
        max_waiting=local.max_waiting,
        wait_s=local.wait_s,
        chat_template=local.chat_template,
        pulls=Pulls(local.pulls),
        pull_limit_bytes=local.pull_limit_bytes,
        outbound=configured(config.outbound),
    )


def log_settings(config: Config) -> LogSettings:
    """What the logs of resumable calls take of the configuration."""
    resume = config.resume
    return LogSettings(
        enabled=resume.enabled,
        grace_s=None if resume.grace_s == FOREVER else resume.grace_s,
        ttl_s=resume.ttl_s,
        call_bytes=resume.call_bytes,
        total_bytes=resume.total_bytes,
    )


def kept_terms(config: Config) -> Terms:
    """What the service of kept answers takes of the configuration."""
    return Terms(
        store=config.responses.store,
        ttl_s=Retention(config.responses.ttl).seconds or 0.0,
        background=config.resume.enabled,
        talk_bytes=config.http.body_limit_bytes,
    )


def engine_settings(config: Config) -> Settings:
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
        routing_key=block.key if block.send != "never" else None,
        routing_always=block.send == "always",
        policies=(policies_of(config)[config.server.policy],) if config.server.policy is not None else (),
        records_text=config.records.text == "all",
    )


def _narrowed(limits: Limits, timeouts: ProviderTimeouts) -> Limits:
    given = {f: v for f in limits.__struct_fields__ if (v := getattr(timeouts, f, None)) is not None}
    return msgspec.structs.replace(limits, **given)
