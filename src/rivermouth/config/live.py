"""Which settings a running server takes over, and which wait for a restart.  Pure.

`APPLIES` is total: a setting that is not in it fails a test.  What waits keeps the value that it has, and is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from itertools import chain
from typing import Any, Final

import msgspec

from rivermouth.config.complete import Config
from rivermouth.config.load import override
from rivermouth.config.problems import dotted


class Applies(Enum):
    """When a changed setting holds."""

    LIVE = "at once, for new calls"
    RESTART = "after a restart"


def _each(table: str, fields: str, applies: Applies) -> Iterator[tuple[str, Applies]]:
    return ((f"{table}.{field}", applies) for field in fields.split())


APPLIES: Final[Mapping[str, Applies]] = dict(
    chain(
        ((name, Applies.LIVE) for name in ("keys", "providers", "endpoints", "models", "policies")),
        _each("server", "keys require_keys allow_open policy default_model watch", Applies.LIVE),
        _each("server", "host port tls_cert tls_key", Applies.RESTART),
        _each("sovereignty", "classes", Applies.LIVE),
        _each("limits", "requests_per_minute tokens_per_minute concurrent expected_output_tokens", Applies.LIVE),
        _each("resilience", "retries cooldown", Applies.LIVE),
        _each("timeouts", "connect_s first_token_s idle_s total_s hold_s drain_s", Applies.LIVE),
        _each("http", "allowed_hosts allowed_origins body_limit_bytes trusted_proxies proxy_headers", Applies.LIVE),
        _each("http", "base_path", Applies.RESTART),
        _each("resume", "enabled grace_s ttl_s call_bytes total_bytes", Applies.LIVE),
        _each("responses", "store ttl", Applies.LIVE),
        _each("outbound", "proxy no_proxy ca_file", Applies.LIVE),
        _each("routing_block", "key send", Applies.LIVE),
        _each("openai", "role", Applies.LIVE),
        _each("gemini", "finish_reason", Applies.LIVE),
        _each("records", "text text_retention retention", Applies.LIVE),
        _each("chat", "models prefer_local", Applies.LIVE),
        _each("chat", "on_disconnect system_prompt max_content_chars total_s idle_s", Applies.RESTART),
        _each("accounts", "signup access_token_s refresh_token_s password_min_chars", Applies.LIVE),
        _each("accounts", "login_tries address_tries tries_window_s", Applies.LIVE),
        _each("local", "keep_alive max_models max_waiting wait_s", Applies.LIVE),
        _each("local", "chat_template pulls pull_limit_bytes", Applies.LIVE),
        _each("local", "devices profile max_active context_memory_bytes check_memory", Applies.RESTART),
        _each("local", "step_s npu_prompt_tokens catalog", Applies.RESTART),
        _each("log", "format level", Applies.LIVE),
        _each("log", "calls", Applies.RESTART),
        _each("telemetry", "traces trust_clients propagate", Applies.RESTART),
        [("data_dir", Applies.RESTART)],
    )
)
"""A setting, or a table of named ones that is taken over whole -> when a change of it holds."""


class Adopted(msgspec.Struct, frozen=True):
    """What a running server makes of a new configuration.  taken, waiting: the keys that changed."""

    config: Config
    taken: tuple[str, ...]
    waiting: tuple[str, ...]


def adopted(running: Config, wanted: Config) -> Adopted:
    """The wanted configuration, except for what waits for a restart.

    Raises `ConfigError` where the two together would leave an open server within reach of others (R16).
    """
    changed = list(differences(running, wanted))
    waiting = tuple(key for key in changed if applies(key) is Applies.RESTART)
    taken = tuple(key for key in changed if key not in waiting)
    kept: dict[str, dict[str, Any]] = {}
    for key in waiting:
        table, _, field = key.partition(".")
        kept.setdefault(table, {})[field] = getattr(getattr(running, table), field) if field else None
    whole = {
        table: msgspec.structs.replace(getattr(wanted, table), **fields)
        if "" not in fields
        else getattr(running, table)
        for table, fields in kept.items()
    }
    config = msgspec.structs.replace(wanted, **whole)
    return Adopted(override(config, option="server.host, as it is until a restart"), taken, waiting)


def applies(key: str) -> Applies:
    """When a change of this key holds; that of a named entry, as in "providers.lab", is its table's."""
    found = APPLIES.get(key)
    return found if found is not None else APPLIES[key.partition(".")[0]]


def differences(before: Config, after: Config) -> Iterator[str]:
    """The keys that say something else, as one writes them in the file."""
    for table in Config.__struct_fields__:
        had, has = getattr(before, table), getattr(after, table)
        if table == "file" or had == has:
            continue
        if isinstance(has, msgspec.Struct):
            yield from (f"{table}.{field}" for field in _changed(_fields(had), _fields(has)))
        elif isinstance(has, Mapping) or isinstance(had, Mapping):
            yield from (dotted((table, name)) for name in _changed(had, has))
        else:
            yield table


def _fields(table: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(table, name) for name in table.__struct_fields__}


def _changed(had: Mapping[str, Any], has: Mapping[str, Any]) -> Iterable[str]:
    nothing = object()
    return (name for name in {**had, **has} if had.get(name, nothing) != has.get(name, nothing))
