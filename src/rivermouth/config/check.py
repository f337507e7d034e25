"""What needs more than one table to judge, and how presets, the file and the environment become providers.

Pure: the environment and the known dialects arrive as arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

from rivermouth.config.complete import Config, ProviderConfig
from rivermouth.config.names import key_fault, policy_fault
from rivermouth.config.presets import PRESETS, QUIRKS, REGION, Preset
from rivermouth.config.problems import KeyPath, did_you_mean
from rivermouth.config.schema import (
    Budget,
    ChatConfig,
    ConfigFile,
    EndpointConfig,
    KeyConfig,
    PolicyConfig,
    ProviderTable,
    ServerConfig,
)
from rivermouth.config.shape import Fault
from rivermouth.config.zones import zone_fault
from rivermouth.loopback import is_loopback
from rivermouth.secrets import Secret

SCRIPTED: Final = "scripted"
BUILT_IN: Final = frozenset({"local", SCRIPTED})
"""Provider names that are not configured: the engine on this machine, and the scripted model."""

AZURES: Final = "openai_chat"
_VERSIONLESS: Final = "/v1"
_WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
_REGION: Final = re.compile(r"[a-z0-9-]+")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")


def providers(
    file: ConfigFile, environ: Mapping[str, str], dialects: frozenset[str]
) -> tuple[dict[str, ProviderConfig], list[Fault]]:
    """Those of the file in its order, then the presets that the environment switches on."""
    faults: list[Fault] = []
    found: dict[str, ProviderConfig] = {}
    for name, table in file.providers.items():
        faults += _provider_faults(name, table, environ, dialects)
        if table.enabled:
            found[name] = _from_file(name, table, environ)
    for name, preset in PRESETS.items():
        if name not in file.providers:
            switched_on = _from_environment(name, preset, environ)
            if switched_on is not None and not is_at(switched_on.base_url or "", file.server.host, file.server.port):
                found[name] = switched_on
    return found, faults


def _provider_faults(
    name: str, table: ProviderTable, environ: Mapping[str, str], dialects: frozenset[str]
) -> Iterator[Fault]:
    path = ("providers", name)
    preset = PRESETS.get(name)
    if name in BUILT_IN or not _NAME.fullmatch(name):
        yield Fault(path, "this name is taken" if name in BUILT_IN else "a name has letters, digits, '.', '_' and '-'")
    for number, quirk in enumerate(table.quirks):
        if quirk not in QUIRKS:
            yield Fault((*path, "quirks", number), f"unknown quirk{did_you_mean(quirk, QUIRKS)}")
    if "@" in urlsplit(table.base_url or "").netloc:
        yield Fault((*path, "base_url"), "credentials do not belong in an address: use api_key or headers")
    if table.python is not None:
        for key in ("dialect", "base_url", "api_key", "key_header", "api_version", "region", "profile", "ca_file"):
            if getattr(table, key) is not None:
                yield Fault((*path, key), "a python provider has none")
        return
    for key in ("dialect", "base_url"):
        if getattr(table, key) is None and preset is None:
            hint = did_you_mean(name, PRESETS)
            yield Fault(path, f"not a preset, so it needs {key} (or python){hint}")
    if table.dialect is not None and table.dialect not in dialects:
        known = ", ".join(sorted(dialects))
        yield Fault((*path, "dialect"), f"unknown dialect{did_you_mean(table.dialect, dialects)} (there are: {known})")
    yield from _signing_faults(path, table, preset, environ)
    placeless = preset is not None and preset.needs_address and _address_of(preset, environ) is None
    if preset is not None and placeless and table.enabled and table.base_url is None:
        yield Fault(path, f"needs base_url, or {preset.address} in the environment")
    if table.api_version is not None and (table.dialect or (preset.dialect if preset else None)) != AZURES:
        yield Fault((*path, "api_version"), f"only Azure's API has versions, which speaks {AZURES}")
    wants_key = preset is not None and preset.keys and table.enabled and table.base_url is None and not preset.regions
    if preset is not None and wants_key and table.api_key is None and _key_of(preset, environ) is None:
        yield Fault(path, f"needs api_key, or {' or '.join(preset.keys)} in the environment")


def _signing_faults(
    path: tuple[str, str], table: ProviderTable, preset: Preset | None, environ: Mapping[str, str]
) -> Iterator[Fault]:
    variables = preset.regions if preset is not None else ()
    region = _region_of(table, preset, environ)
    located = table.base_url is not None and table.api_key is not None
    if variables and table.enabled and region is None and not located:
        yield Fault(path, f"needs region, or {' or '.join(variables)} in the environment")
    if table.profile is not None and table.api_key is not None:
        yield Fault((*path, "profile"), "with an api_key nothing is signed")
    elif table.profile is not None and region is None and not variables:
        yield Fault((*path, "profile"), "requests are only signed where there is a region")


def _region_of(table: ProviderTable | None, preset: Preset | None, environ: Mapping[str, str]) -> str | None:
    if table is not None and table.region is not None:
        return table.region
    variables = preset.regions if preset is not None else ()
    return next((environ[n] for n in variables if _REGION.fullmatch(environ.get(n, ""))), None)


def _from_file(name: str, table: ProviderTable, environ: Mapping[str, str]) -> ProviderConfig:
    preset = PRESETS.get(name) if table.python is None else None
    base_url, dialect, api_key = table.base_url, table.dialect, table.api_key
    region = _region_of(table, preset, environ)
    if preset is not None:
        dialect = dialect or preset.dialect
        if base_url is None:  # a key of the environment goes to its own vendor, never to an address of the file
            if table.profile is None:
                api_key = api_key or _key_of(preset, environ)
            base_url = _address_of(preset, environ) or preset.base_url.replace(REGION, region or "")
            if table.api_version is not None:
                base_url = base_url.removesuffix(_VERSIONLESS)
    return ProviderConfig(
        name=name,
        dialect=dialect,
        base_url=base_url.rstrip("/") if base_url else None,
        api_key=api_key,
        key_header=table.key_header or (preset.key_header if preset is not None else None),
        api_version=table.api_version,
        region=region if api_key is None else None,
        profile=table.profile,
        ca_file=table.ca_file,
        headers=table.headers,
        timeouts=table.timeouts,
        python=table.python,
        quirks=frozenset(table.quirks) | (preset.quirks if preset else _usual_quirks(table)),
    )


def _usual_quirks(table: ProviderTable) -> frozenset[str]:
    """Servers that speak OpenAI's dialect know `max_tokens`; its newer name only some, unless the file says so."""
    renames = {"max_tokens", "max_completion_tokens"} & set(table.quirks)
    return frozenset({"max_tokens"}) if table.dialect == "openai_chat" and not renames else frozenset()


def _from_environment(name: str, preset: Preset, environ: Mapping[str, str]) -> ProviderConfig | None:
    key, address = _key_of(preset, environ), _address_of(preset, environ)
    region = _region_of(None, preset, environ)
    if preset.only_by_file or (key is None and (address is None or preset.keys)):
        return None
    if (preset.regions and region is None) or (preset.needs_address and address is None):
        return None
    return ProviderConfig(
        name=name,
        dialect=preset.dialect,
        base_url=address or preset.base_url.replace(REGION, region or ""),
        api_key=key,
        key_header=preset.key_header,
        quirks=preset.quirks,
        origin=key.label if key is not None else preset.address or "",
    )


def without_place(config: Config, environ: Mapping[str, str]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Presets whose key stands in the environment and that are off all the same, for want of a region or an address.

    Each with the key's variable, and with those that may say the place.
    """
    for name, preset in PRESETS.items():
        key = _key_of(preset, environ)
        off = preset.beside and name not in config.providers and not preset.only_by_file
        if off and key is not None and _region_of(None, preset, environ) is None and not _address_of(preset, environ):
            yield name, key.label, preset.beside


def _key_of(preset: Preset, environ: Mapping[str, str]) -> Secret | None:
    return next((Secret(environ[n], label=n) for n in preset.keys if environ.get(n)), None)


def _address_of(preset: Preset, environ: Mapping[str, str]) -> str | None:
    given = environ.get(preset.address, "").strip() if preset.address else ""
    return address_url(given, preset.base_url) if given else None


def address_url(given: str, usual: str) -> str | None:
    """The base URL that a variable means: host, host:port, :port or a URL; what it leaves out is as in the usual one.

    A URL without a port has its scheme's, as Ollama reads it.  To connect, 0.0.0.0 is this machine.
    """
    home = urlsplit(usual)
    scheme, separator, rest = given.rpartition("://")
    parts = urlsplit(f"{scheme or 'http'}://{rest}")
    try:
        port = parts.port
    except ValueError:
        return None
    if port is None:
        port = {"http": 80, "https": 443}.get(scheme, home.port) if separator else home.port
    host = parts.hostname or "127.0.0.1"
    host = _WILDCARDS.get(host, host)
    shown = f"[{host}]" if ":" in host else host
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{shown}:{port}{path}{'' if path.endswith(home.path) else home.path}"


def is_at(url: str, host: str, port: int) -> bool:
    """The URL leads to this address of ours; a server that answers Ollama's own port must not call itself for it."""
    parts = urlsplit(url)
    here = parts.hostname == host or (is_loopback(parts.hostname or "") and (is_loopback(host) or host in _WILDCARDS))
    return here and parts.port == port


def references(config: Config, disabled: frozenset[str]) -> Iterator[Fault]:
    """Names that point nowhere."""
    classes = config.sovereignty.classes
    if config.server.policy is not None:
        yield from _policy(config, ("server", "policy"), config.server.policy)
    for name, key in config.keys.items():
        yield from _key_faults(config, name, key)
    for name, policy in config.policies.items():
        yield from _policy_faults(config, name, policy)
    for name, endpoint in config.endpoints.items():
        if "/" in name:
            yield Fault(("endpoints", name), "an endpoint's id has no '/': that is provider/model")
        if endpoint.provider not in config.providers and endpoint.provider not in BUILT_IN:
            yield Fault(("endpoints", name, "provider"), _missing_provider(endpoint.provider, config, disabled))
        if classes and endpoint.sovereignty is not None and endpoint.sovereignty not in classes:
            yield Fault(("endpoints", name, "sovereignty"), _no_class(endpoint.sovereignty, classes))
    for name, model in config.models.items():
        for number, ref in enumerate(model.endpoints):
            if find_endpoint(config, ref) is None:
                provider, slash, _ = ref.partition("/")
                known = did_you_mean(ref, config.endpoints)
                missing = _missing_provider(provider, config, disabled) if slash else f"no such endpoint{known}"
                yield Fault(("models", name, "endpoints", number), missing)
        if model.policy is not None:
            yield from _policy(config, ("models", name, "policy"), model.policy)
        for ref in model.weights:
            if ref not in model.endpoints:
                near = did_you_mean(ref, model.endpoints)
                yield Fault(("models", name, "weights", ref), f"not one of its endpoints{near}")


def _key_faults(config: Config, name: str, key: KeyConfig) -> Iterator[Fault]:
    if (fault := key_fault(name)) is not None:
        yield Fault(("keys", name), fault)
    if key.policy is not None:
        yield from _policy(config, ("keys", name, "policy"), key.policy)
    yield from _zone(("keys", name, "budget", "zone"), key.budget)


def _policy(config: Config, path: KeyPath, name: str) -> Iterator[Fault]:
    if name not in config.policies:
        yield Fault(path, f"no policy is called {name}{did_you_mean(name, config.policies)}")


def _policy_faults(config: Config, name: str, policy: PolicyConfig) -> Iterator[Fault]:
    path, classes = ("policies", name), config.sovereignty.classes
    yield from _zone((*path, "budget", "zone"), policy.budget)
    if (fault := policy_fault(name)) is not None:
        yield Fault(path, fault)
    if policy.sovereignty_min is not None and policy.sovereignty_min not in classes:
        yield Fault((*path, "sovereignty_min"), _no_class(policy.sovereignty_min, classes))
    for number, wanted in enumerate(policy.sovereignty or ()):
        if classes and wanted not in classes:
            yield Fault((*path, "sovereignty", number), _no_class(wanted, classes))
    known = {*config.endpoints, *(ref for model in config.models.values() for ref in model.endpoints)}
    for ref in policy.weights:
        if ref not in known:
            yield Fault((*path, "weights", ref), f"no such endpoint{did_you_mean(ref, known)}")


def _zone(path: KeyPath, budget: Budget | None) -> Iterator[Fault]:
    fault = zone_fault(budget.zone) if budget is not None else None
    if fault is not None:
        yield Fault(path, fault)


def _no_class(name: str, classes: Sequence[str]) -> str:
    if not classes:
        return "sovereignty.classes, which says the order of the classes, is not set"
    return f"{name} is not among sovereignty.classes{did_you_mean(name, classes)}"


def default_model_doubt(config: Config, known: Iterable[str]) -> str | None:
    """Why nothing may answer where no model is named; None where something does.  known: what this process answers.

    No fault of the file: a model may be pulled later, and what a provider lists is not asked here.
    """
    name = config.default_model
    own = frozenset(known)
    if name is None or name in config.models or not own.isdisjoint((name, f"{name}:latest")):
        return None
    provider, slash, _ = name.partition("/")
    if slash and (provider in config.providers or provider in BUILT_IN):
        return None
    if config.providers and not slash:
        return None
    unless = ", unless a provider lists it" if config.providers else ""
    near = did_you_mean(name, [*config.models, *own])
    return f"server.default_model: nothing here is called {name}{unless}{near}"


def scripted_asked(config: Config) -> Iterator[Fault]:
    """Whatever would be asked of the scripted models, which not every server has."""
    places: list[tuple[KeyPath, str]] = [
        (("endpoints", name, "provider"), f"{endpoint.provider}/") for name, endpoint in config.endpoints.items()
    ]
    for name, model in config.models.items():
        known = ((("models", name, "endpoints", n), ref) for n, ref in enumerate(model.endpoints))
        places += [(path, ref) for path, ref in known if ref not in config.endpoints]
    for path, ref in places:
        if ref.startswith(f"{SCRIPTED}/"):
            yield Fault(path, "the scripted models answer only in a server that has them: rivermouth serve --scripted")


def find_endpoint(config: Config, ref: str) -> EndpointConfig | None:
    """The endpoint of that id, or "provider/model" as an endpoint without metadata; None if neither."""
    known = config.endpoints.get(ref)
    if known is not None:
        return known
    provider, _, model = ref.partition("/")
    if model and (provider in config.providers or provider in BUILT_IN):
        return EndpointConfig(provider=provider, model=model)
    return None


def _missing_provider(name: str, config: Config, disabled: frozenset[str]) -> str:
    if name in disabled:
        return f"the provider {name} is disabled"
    if name in PRESETS:
        variables = " or ".join(PRESETS[name].keys) or PRESETS[name].address
        if PRESETS[name].only_by_file:
            return f"the provider {name} is not switched on: it needs [providers.{name}]"
        if PRESETS[name].beside:
            variables = f"{variables} with {' or '.join(PRESETS[name].beside)}"
        return f"the provider {name} is not switched on: it needs [providers.{name}] or {variables}"
    return f"no provider is called {name}{did_you_mean(name, config.providers)}"


CHAT_CLOCKS: Final = {"total_s": "AI_STREAM_TIMEOUT", "idle_s": "AI_STREAM_IDLE_TIMEOUT"}
"""A clock of the chat, and the variable that says it where the file does not."""

_SECONDS: Final = re.compile(r"\d{1,5}(\.\d+)?")


def chat_clocks(chat: ChatConfig, environ: Mapping[str, str]) -> ChatConfig:
    """The chat's table with the clocks that the environment says.  What is no number of seconds says nothing."""
    said = {name: environ.get(variable, "").strip() for name, variable in CHAT_CLOCKS.items()}
    values = {name: float(text) for name, text in said.items() if _SECONDS.fullmatch(text) and float(text) > 0}
    wanted = {name: value for name, value in values.items() if getattr(chat, name) is None}
    return msgspec.structs.replace(chat, **wanted) if wanted else chat


def exposure(server: ServerConfig, *, keyed: bool) -> Iterator[Fault]:
    """An open server belongs on loopback (R16)."""
    keyed = keyed or bool(server.keys) or server.require_keys
    if not is_loopback(server.host) and not keyed and not server.allow_open:
        yield Fault(
            ("server", "host"),
            f"{server.host} can be reached from other machines and no key is asked for: "
            "set server.keys or server.require_keys, or server.allow_open = true to leave it open to all",
        )
