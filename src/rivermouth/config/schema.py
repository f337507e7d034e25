"""What `rivermouth.toml` may say.  Each struct is one table of the file; the names of its fields are the keys.

Nothing here is read and ignored: a key that is not a field is refused, with its line.  Values are checked by type and
by the constraints beside them; what needs two tables to judge (does this endpoint's provider exist?) is in `check`.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rivermouth.config.values import (
    MIB,
    BaseUrl,
    Capability,
    Device,
    Duration,
    HostName,
    KeptTime,
    LongestRetention,
    NetworkName,
    NonNegativeS,
    Order,
    Origin,
    PerMinute,
    Port,
    PositiveS,
    Role,
    Scope,
    Target,
    Text,
    Weight,
    shaped,
)
from rivermouth.secrets import Secret


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class RateLimits(Table, frozen=True, kw_only=True):
    """How much may be asked for.  What is not set has no limit."""

    requests_per_minute: PerMinute | None = None
    """Calls that may begin in any minute."""
    tokens_per_minute: PerMinute | None = None
    """Tokens in any minute: estimated when a call begins, corrected when it ends."""
    concurrent: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """Calls that may run at once, streams or not."""


class Budget(Table, frozen=True, kw_only=True):
    """How much may be spent.  A call begins only if its estimate still fits; one that runs is not cut."""

    amount: Annotated[float, Meta(ge=0, le=1_000_000_000)]
    """For each period, in `currency`."""
    currency: Annotated[str, shaped(r"^[A-Z]{3}$", 'must be three capital letters, as in "EUR"')]
    """Three capital letters, as in "EUR".  An endpoint whose price is in another one is not asked."""
    period: Literal["day", "month"] = "month"
    """When it begins anew: at midnight, or at that of the first of the month."""
    zone: Annotated[str, shaped(r"^[A-Za-z][\w+-]*(/[\w+-]+)*$", 'must be a time zone, as in "Europe/Berlin"')] = "UTC"
    """Whose midnight: a time zone as in "Europe/Berlin"."""
    unpriced: Literal["refuse", "free"] = "refuse"
    """Endpoints without a price: "refuse" does not ask them, "free" takes them for free."""


class ServerConfig(Table, frozen=True, kw_only=True):
    """Where the server listens and who may call."""

    host: Text = "127.0.0.1"
    """The address to listen on; any other than loopback needs `keys`, or `allow_open` (R16)."""
    port: Port = 8080
    """The port to listen on; 0 takes a free one."""
    keys: tuple[Secret, ...] = ()
    """What clients may call with: any of these opens every dialect, and without one no key is asked for (R16)."""
    require_keys: bool = False
    """Asks for a key though none is configured: those of the database open the server, and no others."""
    allow_open: bool = False
    """Allows an address other than loopback without `keys`."""
    policy: Text | None = None
    """The name of a policy that holds for every call."""
    default_model: Text | None = None
    """What answers for the names "dummy" and "tgi" (R15), and whom `rivermouth chat` talks to unasked."""
    tls_cert: Text | None = None
    """The certificate chain (PEM), for TLS; a relative path is beside this file, and `--tls-cert` wins."""
    tls_key: Text | None = None
    """Its private key (PEM)."""
    watch: bool = True
    """Reads this file again when it, or a file that it names, has changed; SIGHUP does so in any case."""


class KeyConfig(Table, frozen=True, kw_only=True):
    """A key of one caller, beside `server.keys`, which are everybody's."""

    key: Secret
    """What the caller sends."""
    policy: Text | None = None
    """The name of a policy that holds for all its calls."""
    models: tuple[Text, ...] | None = None
    """Patterns of the model names that it may ask for; without it all."""
    role: Role = "user"
    """ "user" calls models, "auditor" reads what happened under /platform/v1, "admin" does both and changes things."""
    scopes: tuple[Scope, ...] | None = None
    """All that it may use of "generate", "embed", "models", "manage" (pull, copy, delete) and "chat"; without this what
    its role may."""
    user: Text | None = None
    """Whose key it is, in your own words."""
    resumable: bool = False
    """Makes all its calls resumable, without being asked to by each (`[resume]`)."""
    limits: RateLimits = RateLimits()
    budget: Budget | None = None


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


HeaderName = Annotated[str, shaped(r"^[A-Za-z0-9-]+$", 'must be the name of a header, as in "api-key"')]
ApiVersion = Annotated[
    str, shaped(r"^\d{4}-\d{2}-\d{2}(-preview)?$", 'must be a version of Azure\'s API, as in "2024-10-21"')
]


class ProviderTable(Table, frozen=True, kw_only=True):
    """A provider: a preset of that name and what differs from it, a server of your own, or a Python generator."""

    dialect: Text | None = None
    """The protocol that it speaks: the name of a dialect."""
    base_url: BaseUrl | None = None
    """What the paths of the dialect are appended to, as in "http://127.0.0.1:9101/v1"."""
    api_key: Secret | None = None
    """Its key; a preset without `base_url` here takes the one of its variable in the environment."""
    key_header: HeaderName | None = None
    """The header that carries the key, where it is not the one of the dialect."""
    api_version: ApiVersion | None = None
    """The version of Azure's older API, whose paths name the model as a deployment; the newer one has no versions."""
    region: Annotated[str, shaped(r"^[a-z0-9-]+$", 'must be the name of a region, as in "eu-central-1"')] | None = None
    """The AWS region that it is in: requests are signed for it with AWS credentials, unless there is an `api_key`."""
    profile: Text | None = None
    """The profile of AWS's own configuration to sign with; without it, what AWS's tools would take."""
    ca_file: Text | None = None
    """An authority (PEM) to trust beside the system's; a relative path is beside this file."""
    proxy: Secret | None = None
    """The proxy on the way to it, in place of that of `[outbound]` or the environment; "direct" is none."""
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
    since: date | None = None
    """The day from which they hold, for whoever reads the file; a call costs what the file says when it is made."""

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
    """The model's name there; "*" says the same of all that have no entry of their own."""
    version: str | None = None
    """Which version of the model that is."""
    region: str | None = None
    """Where it computes."""
    sovereignty: str | None = None
    """Its class of sovereignty, in your own words."""
    retention: str | None = None
    """How long what it is sent is kept there: "none", a time as in "12h", "30d", "1y", or your own words, which no
    policy with a longest time takes for one."""
    price: Price | None = None
    capabilities: tuple[Capability, ...] | None = None
    """All that it can take or do of: "audio", "files", "images", "json_schema", "reasoning", "tools".  Without this it
    is tried with everything, but by no policy that requires something."""
    context_tokens: Annotated[int, Meta(gt=0)] | None = None
    """How much of prompt and answer it takes; a prompt that is clearly longer goes elsewhere."""
    records_text: bool = True
    """false keeps no text of the calls that went there, whatever `records.text` says, and drops what there was."""


class ModelConfig(Table, frozen=True, kw_only=True):
    """A name that clients may ask for."""

    endpoints: Annotated[tuple[Text, ...], Meta(min_length=1)]
    """Names of `[endpoints]`, or "provider/model", tried in this order."""
    policy: Text | None = None
    """The name of a policy that holds for whoever asks for this model."""
    order: Order = "listed"
    """The order in which they are tried: "listed", "price" (cheapest first), "weighted" (drawn), "least_busy"."""
    weights: dict[str, Weight] = {}
    """By endpoint, for "weighted" and "least_busy"; 1 where it is not said, and 0 comes last."""


class SovereigntyConfig(Table, frozen=True, kw_only=True):
    """Your classes of sovereignty."""

    classes: tuple[Text, ...] = ()
    """All of them, the strictest first."""


class PriceCeiling(Table, frozen=True, kw_only=True):
    """What an endpoint may cost at most; each for itself."""

    input: Annotated[float, Meta(ge=0)]
    """For `per` tokens of the prompt."""
    output: Annotated[float, Meta(ge=0)]
    """For `per` tokens of the answer."""
    currency: Annotated[str, shaped(r"^[A-Z]{3}$", 'must be three capital letters, as in "EUR"')]
    """Three capital letters, as in "EUR"; prices in another currency are above it."""
    per: Annotated[int, Meta(gt=0)] = 1_000_000
    """How many tokens the prices are for."""


class PolicyConfig(Table, frozen=True, kw_only=True):
    """Where calls may go.  A rule that is not there restricts nothing; one that is there refuses what is not known."""

    regions: tuple[Text, ...] | None = None
    """Patterns of the regions that may compute, as in ["eu-*"]."""
    sovereignty: tuple[Text, ...] | None = None
    """The classes that may serve."""
    sovereignty_min: Text | None = None
    """The least strict class that may serve, by the order of `sovereignty.classes`."""
    providers: tuple[Text, ...] | None = None
    """Patterns of the providers that may serve."""
    retention_max: LongestRetention | None = None
    """The longest time for which what is sent may be kept there: "none", or as in "30d"."""
    price_max: PriceCeiling | None = None
    requires: tuple[Capability, ...] = ()
    """What an endpoint must be able to do, whether or not a call needs it."""
    context_min_tokens: Annotated[int, Meta(gt=0)] | None = None
    """The smallest context that an endpoint may have."""
    order: Order | None = None
    """The order in which they are tried, in place of the model's own."""
    prefer: tuple[Text, ...] = ()
    """Patterns of endpoints: what matches an earlier one is tried first, whatever `order` says."""
    weights: dict[str, Weight] = {}
    """By endpoint, in place of the model's own."""
    fallback: bool = True
    """false tries the first and no other."""
    records_text: bool = True
    """false keeps no text of its calls, whatever `records.text` says, and drops what there was."""
    budget: Budget | None = None


class LimitsConfig(RateLimits, frozen=True, kw_only=True):
    """Limits of the whole server, those without a key and the chat included, beside those of the keys."""

    expected_output_tokens: Annotated[int, Meta(ge=1, le=10_000_000)] = 1024
    """How long an answer is taken to be, when a call begins that does not limit it."""


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
    base_path: Annotated[str, shaped(r"^(/[^/\s]+)*$", 'must begin with a slash and not end in one, as in "/llm"')] = ""
    """A path before every route, for a reverse proxy that passes it on."""
    trusted_proxies: tuple[NetworkName, ...] = ()
    """Addresses and networks of reverse proxies: only from them, and only as far as they wrote it, is it believed who a
    client is, by which scheme it came and which host it asked."""
    proxy_headers: Literal["x-forwarded", "forwarded"] = "x-forwarded"
    """How they say so: X-Forwarded-For, -Proto and -Host, or Forwarded.  The other family is not read."""
    body_limit_bytes: Annotated[int, Meta(ge=1024)] = 32 * MIB
    """The largest request body that is read."""


class ResumeConfig(Table, frozen=True, kw_only=True):
    """Calls that outlive their connection, for clients that ask for it (`x-rivermouth-resumable: 1`)."""

    enabled: bool = True
    """false makes every call a plain one."""
    grace_s: NonNegativeS | Literal["forever"] = 60.0
    """How long a call goes on that nobody reads; "forever" is to its end.  A client may ask for less."""
    ttl_s: PositiveS = 300.0
    """How long an answer that has ended can be read again."""
    call_bytes: Annotated[int, Meta(ge=64 * 1024)] = 16 * MIB
    """What is kept of one answer; of a longer one the beginning is forgotten when every reader has it."""
    total_bytes: Annotated[int, Meta(ge=64 * 1024)] = 256 * MIB
    """What is kept of all answers together; the oldest that have ended make room."""


class ResponsesConfig(Table, frozen=True, kw_only=True):
    """Answers that a client of OpenAI's Responses can ask for again, go on from, or wait for."""

    store: bool = True
    """false keeps no answer, and drops those that there were: no `previous_response_id`, no `background`."""
    ttl: KeptTime = "30d"
    """For how long an answer is kept; a policy or an endpoint with a shorter retention, or none, has the last word."""


class OutboundConfig(Table, frozen=True, kw_only=True):
    """The way to providers.  A provider on this machine is always called directly."""

    proxy: Secret | None = None
    """An HTTP proxy, as in "http://proxy.example.org:3128", with user and password where it wants them; "direct" is
    none.  Without this the environment's HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY hold."""
    no_proxy: tuple[Text, ...] = ()
    """Who is called directly in spite of `proxy`: names (with all below them), addresses, networks, each also with a
    port, or "*"."""
    ca_file: Text | None = None
    """An authority (PEM) to trust beside the system's, for every provider: that of a proxy that opens TLS."""


class RoutingBlockConfig(Table, frozen=True, kw_only=True):
    """The member of OpenAI chat answers that says who really served them (R5)."""

    key: Text = "llmeu"
    """The member's name."""
    send: Literal["always", "policy", "never"] = "always"
    """ "always" sends it on every stream and reply of OpenAI's chat, "policy" where a policy held, "never" on none."""


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

    text: Literal["none", "all"] = "none"
    """ "all" keeps what was asked and answered beside the record; "none" keeps nothing, and drops what there was."""
    text_retention: KeptTime = "30d"
    """For how long such a text is kept."""
    retention: KeptTime | None = None
    """For how long a record is kept, with all that it says; without it for ever."""


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


class LogConfig(Table, frozen=True, kw_only=True):
    """The log, on stderr: one event a line, without prompts, answers and secrets."""

    format: Literal["auto", "json", "text"] = "auto"
    """ "json", "text", or "auto": text on a terminal, JSON elsewhere."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important lines that are written."""
    calls: bool = True
    """Writes a line for each call that ended: how, with which model and tokens, how long it took."""


class TelemetryConfig(Table, frozen=True, kw_only=True):
    """Traces by OpenTelemetry; where they go, and how many, its own variables say."""

    traces: Literal["off", "otlp"] | None = None
    """ "otlp" sends each call's spans to a collector; without it OTEL_TRACES_EXPORTER says, and else it is "off"."""
    trust_clients: bool = True
    """Goes on with the trace that a client's `traceparent` names, and with its sampling; false only links to it."""
    propagate: bool = True
    """Tells providers which trace a call is part of, by `traceparent`, while traces are on."""


class ConfigFile(Table, frozen=True, kw_only=True):
    """The whole file."""

    server: ServerConfig = ServerConfig()
    keys: dict[str, KeyConfig] = {}
    providers: dict[str, ProviderTable] = {}
    endpoints: dict[str, EndpointConfig] = {}
    models: dict[str, ModelConfig] = {}
    policies: dict[str, PolicyConfig] = {}
    sovereignty: SovereigntyConfig = SovereigntyConfig()
    limits: LimitsConfig = LimitsConfig()
    resilience: ResilienceConfig = ResilienceConfig()
    timeouts: TimeoutsConfig = TimeoutsConfig()
    http: HttpConfig = HttpConfig()
    resume: ResumeConfig = ResumeConfig()
    responses: ResponsesConfig = ResponsesConfig()
    outbound: OutboundConfig = OutboundConfig()
    routing_block: RoutingBlockConfig = RoutingBlockConfig()
    openai: OpenAiConfig = OpenAiConfig()
    gemini: GeminiConfig = GeminiConfig()
    records: RecordsConfig = RecordsConfig()
    chat: ChatConfig = ChatConfig()
    accounts: AccountsConfig = AccountsConfig()
    local: LocalConfig = LocalConfig()
    log: LogConfig = LogConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    data_dir: Text | None = None
    """Where models and records are kept, beside this file if relative; `--data-dir` and `RIVERMOUTH_DATA` win."""
