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


def shaped(pattern: str, says: str) -> Meta:
    """A constraint with the sentence that is said of a text that does not keep it."""
    return Meta(pattern=pattern, description=says)


Port = Annotated[int, Meta(ge=0, le=65535)]
PositiveS = Annotated[float, Meta(gt=0, le=86_400)]
NonNegativeS = Annotated[float, Meta(ge=0, le=86_400)]
Text = Annotated[str, Meta(min_length=1)]
Device = Annotated[str, shaped("^(NPU|GPU|CPU)([.][0-9]+)?$", "must be NPU, GPU or CPU, or one of several as in GPU.1")]
BaseUrl = Annotated[str, shaped(r"^https?://[^/\s]+", "must begin with http:// or https://, and a host")]
Target = Annotated[str, shaped(r"^[\w.]+:[\w.]+$", 'must be a module and a function, as in "package.module:stream"')]
HostName = Annotated[
    str,
    shaped(r"^([^\s:/*]+|\[[0-9A-Fa-f:.]+\])$", 'must be a name alone, without scheme, port and path: "example.org"'),
]
Network = Annotated[
    str, shaped(r"^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$", 'must be an address or a network, as in "127.0.0.1" or "10.0.0.0/8"')
]
Origin = Annotated[
    str,
    shaped(
        r"^([*]|null|[A-Za-z][A-Za-z0-9+.-]*://([*]|[^\s/*]+(:[*])?)/?)$",
        'must be an origin as in "https://example.org", without a path; or "http://host:*", "scheme://*", "*"',
    ),
]


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
    """Where the server listens and who may call."""

    host: Text = "127.0.0.1"
    """The address to listen on; any other than loopback needs `keys`, or `allow_open` (R16)."""
    port: Port = 8080
    """The port to listen on; 0 takes a free one."""
    keys: tuple[Secret, ...] = ()
    """What clients may call with: any of these opens every dialect, and without one no key is asked for (R16)."""
    allow_open: bool = False
    """Allows an address other than loopback without `keys`."""
    default_model: Text | None = None
    """What answers for the names "dummy" and "tgi" (R15), and whom `rivermouth chat` talks to unasked."""


class ProviderTimeouts(Table, frozen=True, kw_only=True):
    """Clocks of one provider; the smaller of these and `[timeouts]` holds, each for itself (R7)."""

    connect_s: PositiveS | None = None
    """Until the connection stands, TLS included."""
    first_token_s: PositiveS | None = None
    """Of a stream: from the start of an attempt to its first content."""
    idle_s: PositiveS | None = None
    """Of a stream: the longest silence between two pieces of content."""
    total_s: PositiveS | None = None
    """The whole of one attempt at this provider."""


class ProviderTable(Table, frozen=True, kw_only=True):
    """A provider: a preset of that name and what differs from it, a server of your own, or a Python generator."""

    dialect: Text | None = None
    """The protocol that it speaks: the name of a dialect."""
    base_url: BaseUrl | None = None
    """What the paths of the dialect are appended to, as in "http://127.0.0.1:9101/v1"."""
    api_key: Secret | None = None
    """Its key; a preset without `base_url` here takes the one of its variable in the environment."""
    region: Annotated[str, shaped(r"^[a-z0-9-]+$", 'must be the name of a region, as in "eu-central-1"')] | None = None
    """The AWS region that it is in: requests are signed for it with AWS credentials, unless there is an `api_key`."""
    profile: Text | None = None
    """The profile of AWS's own configuration to sign with; without it, what AWS's tools would take."""
    ca_file: Text | None = None
    """An authority (PEM) to trust beside the system's; a relative path is beside this file."""
    headers: dict[str, Secret] = {}
    """Further headers of every request to it."""
    timeouts: ProviderTimeouts = ProviderTimeouts()
    python: Target | None = None
    """A generator function of yours, as in "package.module:stream"; then it has no address and no key."""
    quirks: tuple[str, ...] = ()
    """What it does otherwise than its dialect says, in the words of the table below."""
    enabled: bool = True
    """false switches it off, also where the environment would switch it on."""


class Price(Table, frozen=True, kw_only=True):
    """What tokens cost at this endpoint; without it a call's cost is not known."""

    input: Annotated[float, Meta(ge=0)]
    """For `per` tokens of the prompt."""
    output: Annotated[float, Meta(ge=0)]
    """For `per` tokens of the answer."""
    currency: Annotated[str, shaped(r"^[A-Z]{3}$", 'must be three capital letters, as in "EUR"')]
    """Three capital letters, as in "EUR"."""
    cached_input: Annotated[float, Meta(ge=0)] | None = None
    """For `per` tokens of the prompt that the provider had cached; without it the same as `input`."""
    per: Annotated[int, Meta(gt=0)] = 1_000_000
    """How many tokens the prices are for."""

    def cost(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float:
        """The amount, in `currency`, for this many tokens; `cached_tokens` are some of `input_tokens`."""
        cached_price = self.input if self.cached_input is None else self.cached_input
        fresh_tokens = max(input_tokens - cached_tokens, 0)
        spent = fresh_tokens * self.input + cached_tokens * cached_price + output_tokens * self.output
        return spent / self.per


class EndpointConfig(Table, frozen=True, kw_only=True):
    """What routing knows of one model at one provider.  What is not set is null in the routing block."""

    provider: Text
    """A provider of this file or of the environment, or "local"."""
    model: Text
    """The model's name there."""
    version: str | None = None
    """Which version of the model that is."""
    region: str | None = None
    """Where it computes."""
    sovereignty: str | None = None
    """Its class of sovereignty, in your own words."""
    retention: str | None = None
    """How long what it is sent is kept there, in your own words."""
    price: Price | None = None


class ModelConfig(Table, frozen=True, kw_only=True):
    """A name that clients may ask for."""

    endpoints: Annotated[tuple[Text, ...], Meta(min_length=1)]
    """Names of `[endpoints]`, or "provider/model", tried in this order."""


class ResilienceConfig(Table, frozen=True, kw_only=True):
    """What happens when an attempt fails before its first content."""

    retries: Annotated[int, Meta(ge=0, le=10)] = 2
    """How many more tries a call has after every endpoint had one, where the failure is of a kind that passes."""
    cooldown: bool = True
    """Leaves an endpoint for last after three failures in a row, and for as long as its Retry-After says."""


class TimeoutsConfig(Table, frozen=True, kw_only=True):
    """The four clocks of a call (R7), and two that belong to the server."""

    connect_s: PositiveS = 10.0
    """Until the connection to an upstream stands, TLS included."""
    first_token_s: PositiveS = 60.0
    """Of a stream: from the start of an attempt to its first content."""
    idle_s: PositiveS = 60.0
    """Of a stream: the longest silence between two pieces of content; a local model has 180 s."""
    total_s: PositiveS = 600.0
    """The whole call, all attempts together; it starts when the first target has begun."""
    hold_s: NonNegativeS = 15.0
    """How long a silent stream holds back its HTTP status; then keep-alives come, where the dialect has any."""
    drain_s: NonNegativeS = 10.0
    """How long running calls may go on after the first signal to stop."""


class HttpConfig(Table, frozen=True, kw_only=True):
    """Browser safety, proxies and sizes."""

    allowed_hosts: tuple[HostName, ...] = ()
    """Names in the Host header that are answered beside loopback and the addresses listened on (R26)."""
    allowed_origins: tuple[Origin, ...] = (
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
    """Web pages that may call: an origin, "http://host:*" for all its ports, "scheme://*", or "*" (R26)."""
    trusted_proxies: tuple[Network, ...] = ()
    """Addresses, or networks as in "10.0.0.0/8", of proxies whose X-Forwarded-For is believed."""
    base_path: Annotated[str, shaped(r"^(/[^/\s]+)*$", 'must begin with a slash and not end in one, as in "/llm"')] = ""
    """A path before every route, for a reverse proxy that passes it on."""
    body_limit_bytes: Annotated[int, Meta(ge=1024)] = 32 * MIB
    """The largest request body that is read."""


class RoutingBlockConfig(Table, frozen=True, kw_only=True):
    """The member of OpenAI chat answers that says who really served them (R5)."""

    key: Text = "llmeu"
    """The member's name."""
    send: Literal["always", "never"] = "always"
    """ "always" sends it on every stream and reply of OpenAI's chat, "never" on none."""


class OpenAiConfig(Table, frozen=True, kw_only=True):
    """What OpenAI's dialect is told."""

    role: Literal["once", "every"] = "once"
    """How often the assistant's role stands in a stream on /openai/v1: "once", or in "every" chunk (R3)."""


class GeminiConfig(Table, frozen=True, kw_only=True):
    """What Gemini's dialect is told."""

    finish_reason: Literal["last", "every"] = "last"
    """Where a stream says why it ends: in its "last" frame, at which SDKs stop reading, or (STOP) in "every" (R9)."""


class RecordsConfig(Table, frozen=True, kw_only=True):
    """What the record of a call holds."""

    text: Literal["none"] = "none"
    """How much of prompts and answers a record holds; nothing but "none" can be asked for."""


class ChatConfig(Table, frozen=True, kw_only=True):
    """The chat application, under /api/chats."""

    on_disconnect: Literal["continue", "cancel"] = "continue"
    """What a client does that leaves its stream: "continue" finishes and saves the answer, "cancel" stops it (R10)."""
    prefer_local: bool = False
    """Asks the local model first where a message names no model (R17)."""
    models: dict[str, Text] = {}
    """The model that a provider's name alone means, as in kimi = "kimi-k2.6"."""
    system_prompt: str = "You are a helpful assistant."
    """What every model is told in front of the talk; a chat's own instructions follow it."""
    max_content_chars: Annotated[int, Meta(ge=1, le=1_000_000)] = 32_000
    """The longest message that is taken."""
    total_s: PositiveS | None = None
    """The whole of an answer; else AI_STREAM_TIMEOUT, else 120."""
    idle_s: PositiveS | None = None
    """The longest wait for a piece of an answer, the first too; else AI_STREAM_IDLE_TIMEOUT, else 30."""


class AccountsConfig(Table, frozen=True, kw_only=True):
    """Who may use the chat application, and for how long a sign-in lasts."""

    signup: Literal["open", "closed"] | None = None
    """Whether strangers may make an account, or be guests: "open", or "closed", where it takes a key of `server.keys`
    or the operator; without it, open as long as there are no such keys."""
    access_token_s: Annotated[float, Meta(ge=60, le=86_400)] = 900.0
    """How long an access token is good; it is renewed by itself as long as the session lasts."""
    refresh_token_s: Annotated[float, Meta(ge=3_600, le=31_536_000)] = 2_592_000.0
    """How long a session lasts that is not used; a guest whose session has ended is deleted."""
    password_min_chars: Annotated[int, Meta(ge=8, le=128)] = 8
    """The shortest password of a new account."""
    login_tries: Annotated[int, Meta(ge=1, le=10_000)] = 10
    """How many wrong passwords one name may have within `tries_window_s`."""
    address_tries: Annotated[int, Meta(ge=1, le=100_000)] = 50
    """How many wrong passwords, and how many new accounts and guests, one address may have within it."""
    tries_window_s: PositiveS = 300.0
    """The time in which these many tries come back, one after the other."""


class LocalConfig(Table, frozen=True, kw_only=True):
    """The engine on this machine."""

    keep_alive: Duration = Duration(300)
    """How long an idle model stays loaded, in seconds or as "5m"; 0: not at all, negative: for ever."""
    chat_template: bool = True
    """false writes prompts with role prefixes instead of the model's own template."""
    max_models: Annotated[int, Meta(ge=1, le=64)] = 2
    """How many models are loaded at once, each device counted for itself; one more takes the place of the one that is
    idle longest."""
    devices: tuple[Device, ...] = ()
    """The devices to use, in order of preference, as in ["NPU", "GPU.0", "CPU"]; without it those that are here, NPU
    before GPU before CPU."""
    profile: Literal["throughput", "single"] = "throughput"
    """"single" makes one answer at a time of each model and starts fastest, from what an earlier start compiled."""
    max_active: Annotated[int, Meta(ge=1, le=256)] = 16
    """How many answers one model makes at once on one device; an NPU makes one, and so does the profile "single"."""
    context_memory_bytes: Annotated[int, Meta(ge=MIB)] = 1024 * MIB
    """What the memory of a model's answers may take, from the second whole context on; what they leave of it keeps
    prompts for those that begin the same."""
    check_memory: bool = True
    """false loads a model also where it needs more memory than is free."""
    step_s: PositiveS = 60.0
    """An engine process that makes no step for so long while calls wait for it is ended, and they fail."""
    npu_prompt_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] = 1800
    """The longest prompt that an NPU gets; a longer one goes to the next device."""
    max_waiting: Annotated[int, Meta(ge=0, le=10_000)] = 32
    """How many calls may wait for one model on one device; one more is refused as overloaded."""
    wait_s: NonNegativeS = 60.0
    """How long a call waits for its turn before it is refused as overloaded."""
    catalog: Text | None = None
    """A file with models of your own that can be pulled by name, as the program's own catalogue has them."""
    pulls: Literal["none", "catalog", "hub"] = "catalog"
    """What clients may pull: nothing, names of the catalogue, or these and "hf:" names; addresses and paths never."""
    pull_limit_bytes: Annotated[int, Meta(ge=1024 * 1024)] = 64 * 1024 * MIB
    """The largest model that is pulled, all its files together."""


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
    gemini: GeminiConfig = GeminiConfig()
    records: RecordsConfig = RecordsConfig()
    chat: ChatConfig = ChatConfig()
    accounts: AccountsConfig = AccountsConfig()
    local: LocalConfig = LocalConfig()
    data_dir: Text | None = None
    """Where models and records are kept, beside this file if relative; `--data-dir` and `RIVERMOUTH_DATA` win."""


class ProviderConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A provider as it will be used: the preset and the file put together.

    Exactly one of `python` and (`dialect`, `base_url`) is set.  `origin` says who switched it on: "file", or the
    environment variable.  `region` is set where requests are signed for AWS, and then there is no `api_key`.
    """

    name: str
    dialect: str | None = None
    base_url: str | None = None
    api_key: Secret | None = None
    region: str | None = None
    profile: str | None = None
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
    gemini: GeminiConfig = GeminiConfig()
    records: RecordsConfig = RecordsConfig()
    chat: ChatConfig = ChatConfig()
    accounts: AccountsConfig = AccountsConfig()
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
