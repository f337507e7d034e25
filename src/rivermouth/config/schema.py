"""What `rivermouth.toml` may say.  Each struct is one table of the file; the names of its fields are the keys.

Nothing here is read and ignored: a key that is not a field is refused, with its line.  Values are checked by type and
by the constraints beside them; what needs two tables to judge (does this endpoint's provider exist?) is in `check`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from rivermouth.secrets import Secret

MIB: Final = 1024 * 1024

Port = Annotated[int, Meta(ge=0, le=65535)]
PositiveS = Annotated[float, Meta(gt=0, le=86_400)]
NonNegativeS = Annotated[float, Meta(ge=0, le=86_400)]
Text = Annotated[str, Meta(min_length=1)]


class Duration(float):
    """Seconds, written as a number or as Ollama writes them: "5m", "1h30m", "-1" (negative: for ever)."""

    _UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    _PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
    _WHOLE: Final = re.compile(rf"-?(?:{_PART.pattern})+")

    @classmethod
    def parse(cls, value: Any) -> Duration:
        """Raises `ValueError` for what is no duration."""
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(f"expected a duration as in 300 or '5m', got {type(value).__name__}")
        if isinstance(value, int | float):
            return cls(value)
        if re.fullmatch(r"-?\d+", value):
            return cls(int(value))
        if not cls._WHOLE.fullmatch(value):
            raise ValueError(f"expected a duration as in 300 or '5m', got {value!r}")
        seconds = sum(float(n) * cls._UNITS[u] for n, u in cls._PART.findall(value))
        return cls(-seconds if value.startswith("-") else seconds)


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class ServerConfig(Table, frozen=True, kw_only=True):
    """Where the server listens and who may call.  `keys`: any of them opens every dialect (R16)."""

    host: Text = "127.0.0.1"
    port: Port = 8080
    keys: tuple[Secret, ...] = ()
    allow_open: bool = False
    default_model: Text | None = None


class ProviderTimeouts(Table, frozen=True, kw_only=True):
    """Clocks of one provider; for each the smaller of this and the surface's holds.  None: the surface's alone."""

    connect_s: PositiveS | None = None
    first_token_s: PositiveS | None = None
    idle_s: PositiveS | None = None
    total_s: PositiveS | None = None


class ProviderTable(Table, frozen=True, kw_only=True):
    """A provider as written: over a preset of the same name, or spelled out, or a Python generator."""

    dialect: Text | None = None
    base_url: Annotated[str, Meta(pattern=r"^https?://[^/\s]+")] | None = None
    api_key: Secret | None = None
    ca_file: Text | None = None
    headers: dict[str, Secret] = {}
    timeouts: ProviderTimeouts = ProviderTimeouts()
    python: Annotated[str, Meta(pattern=r"^[\w.]+:[\w.]+$")] | None = None
    quirks: tuple[str, ...] = ()
    enabled: bool = True


class Price(Table, frozen=True, kw_only=True):
    """What `per` tokens cost, in and out.  cached_input: of those input tokens that were cached; None: the same."""

    input: Annotated[float, Meta(ge=0)]
    output: Annotated[float, Meta(ge=0)]
    currency: Annotated[str, Meta(pattern=r"^[A-Z]{3}$")]
    cached_input: Annotated[float, Meta(ge=0)] | None = None
    per: Annotated[int, Meta(gt=0)] = 1_000_000

    def cost(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float:
        """The amount, in `currency`, for this many tokens; `cached_tokens` are some of `input_tokens`."""
        cached_price = self.input if self.cached_input is None else self.cached_input
        fresh_tokens = max(input_tokens - cached_tokens, 0)
        spent = fresh_tokens * self.input + cached_tokens * cached_price + output_tokens * self.output
        return spent / self.per


class EndpointConfig(Table, frozen=True, kw_only=True):
    """What routing knows of one model at one provider.  None is "not configured"."""

    provider: Text
    model: Text
    version: str | None = None
    region: str | None = None
    sovereignty: str | None = None
    retention: str | None = None
    price: Price | None = None


class ModelConfig(Table, frozen=True, kw_only=True):
    """A name that clients may ask for: endpoint ids or "provider/model", tried in this order."""

    endpoints: Annotated[tuple[Text, ...], Meta(min_length=1)]


class ResilienceConfig(Table, frozen=True, kw_only=True):
    """retries: more tries at one candidate before its commit point.  cooldown: rest a candidate that keeps failing."""

    retries: Annotated[int, Meta(ge=0, le=10)] = 2
    cooldown: bool = True


class TimeoutsConfig(Table, frozen=True, kw_only=True):
    """The four clocks of a call, how long its HTTP status is held, and how long a shutdown waits for calls."""

    connect_s: PositiveS = 10.0
    first_token_s: PositiveS = 60.0
    idle_s: PositiveS = 60.0
    total_s: PositiveS = 600.0
    hold_s: NonNegativeS = 15.0
    drain_s: NonNegativeS = 10.0


class HttpConfig(Table, frozen=True, kw_only=True):
    """Browser safety (R26), proxies and sizes.  An origin ending in ":*" stands for every port of that host."""

    allowed_hosts: tuple[Text, ...] = ()
    allowed_origins: tuple[Text, ...] = (
        "http://localhost:*",
        "https://localhost:*",
        "http://127.0.0.1:*",
        "https://127.0.0.1:*",
        "http://[::1]:*",
        "https://[::1]:*",
        "app://*",
        "tauri://*",
        "vscode-webview://*",
    )
    base_path: Annotated[str, Meta(pattern=r"^(/[^/\s]+)*$")] = ""
    body_limit_bytes: Annotated[int, Meta(ge=1024)] = 32 * MIB


class RoutingBlockConfig(Table, frozen=True, kw_only=True):
    """The member of OpenAI chat answers that says who really served them (R5)."""

    key: Text = "llmeu"
    send: Literal["always", "never"] = "always"


class OpenAiConfig(Table, frozen=True, kw_only=True):
    """role: how often the assistant's role appears in a stream on /openai/v1 (R3)."""

    role: Literal["once", "every"] = "once"


class RecordsConfig(Table, frozen=True, kw_only=True):
    """text: how much of prompts and answers a record holds.  Only "none" can be asked for."""

    text: Literal["none"] = "none"


class LocalConfig(Table, frozen=True, kw_only=True):
    """The engine on this machine.  keep_alive: how long an idle model stays loaded; 0 not at all, negative for ever."""

    keep_alive: Duration = Duration(300)
    chat_template: bool = True
    max_models: Annotated[int, Meta(ge=1, le=64)] = 2


class ConfigFile(Table, frozen=True, kw_only=True):
    """The whole file."""

    server: ServerConfig = ServerConfig()
    providers: dict[str, ProviderTable] = {}
    endpoints: dict[str, EndpointConfig] = {}
    models: dict[str, ModelConfig] = {}
    resilience: ResilienceConfig = ResilienceConfig()
    timeouts: TimeoutsConfig = TimeoutsConfig()
    http: HttpConfig = HttpConfig()
    routing_block: RoutingBlockConfig = RoutingBlockConfig()
    openai: OpenAiConfig = OpenAiConfig()
    records: RecordsConfig = RecordsConfig()
    local: LocalConfig = LocalConfig()
    data_dir: Text | None = None


class ProviderConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A provider as it will be used: the preset and the file put together.

    Exactly one of `python` and (`dialect`, `base_url`) is set.  `origin` says who switched it on: "file", or the
    environment variable.
    """

    name: str
    dialect: str | None = None
    base_url: str | None = None
    api_key: Secret | None = None
    ca_file: str | None = None
    headers: dict[str, Secret] = {}
    timeouts: ProviderTimeouts = ProviderTimeouts()
    python: str | None = None
    quirks: frozenset[str] = frozenset()
    origin: str = "file"


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was configured, checked and complete.  `file` is where it was read from, if anywhere."""

    server: ServerConfig = ServerConfig()
    providers: dict[str, ProviderConfig] = {}
    endpoints: dict[str, EndpointConfig] = {}
    models: dict[str, ModelConfig] = {}
    resilience: ResilienceConfig = ResilienceConfig()
    timeouts: TimeoutsConfig = TimeoutsConfig()
    http: HttpConfig = HttpConfig()
    routing_block: RoutingBlockConfig = RoutingBlockConfig()
    openai: OpenAiConfig = OpenAiConfig()
    records: RecordsConfig = RecordsConfig()
    local: LocalConfig = LocalConfig()
    data_dir: str | None = None
    file: str | None = None

    @property
    def default_model(self) -> str | None:
        """The model that answers where a protocol names none (R15)."""
        return self.server.default_model

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Every secret of this configuration, for `redact`."""
        found = list(self.server.keys)
        for provider in self.providers.values():
            found += [provider.api_key] if provider.api_key is not None else []
            found += provider.headers.values()
        return tuple(found)
