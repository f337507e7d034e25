"""The configuration as the program has it: the file and the environment put together, checked and complete."""

from __future__ import annotations

import msgspec

from rivermouth.config.schema import (
    AccountsConfig,
    ChatConfig,
    EndpointConfig,
    GeminiConfig,
    HttpConfig,
    KeyConfig,
    LimitsConfig,
    LocalConfig,
    LogConfig,
    ModelConfig,
    OpenAiConfig,
    OutboundConfig,
    PolicyConfig,
    ProviderTimeouts,
    RecordsConfig,
    ResilienceConfig,
    ResponsesConfig,
    ResumeConfig,
    RoutingBlockConfig,
    ServerConfig,
    SovereigntyConfig,
    TelemetryConfig,
    TimeoutsConfig,
)
from rivermouth.config.values import DIRECT
from rivermouth.secrets import Secret


class ProviderConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A provider as it will be used: the preset and the file put together.

    Exactly one of `python` and (`dialect`, `base_url`) is set.  `origin` says who switched it on: "file", or the
    environment variable.  `region` is set where requests are signed for AWS, and then there is no `api_key`.
    """

    name: str
    dialect: str | None = None
    base_url: str | None = None
    api_key: Secret | None = None
    key_header: str | None = None
    api_version: str | None = None
    region: str | None = None
    profile: str | None = None
    ca_file: str | None = None
    proxy: Secret | None = None
    headers: dict[str, Secret] = {}
    timeouts: ProviderTimeouts = ProviderTimeouts()
    python: str | None = None
    quirks: frozenset[str] = frozenset()
    origin: str = "file"


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was configured, checked and complete.  `file` is where it was read from, if anywhere."""

    server: ServerConfig = ServerConfig()
    keys: dict[str, KeyConfig] = {}
    providers: dict[str, ProviderConfig] = {}
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
    telemetry: TelemetryConfig = TelemetryConfig(traces="off")
    data_dir: str | None = None
    file: str | None = None

    @property
    def default_model(self) -> str | None:
        """The model that answers where a protocol names none (R15)."""
        return self.server.default_model

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Every secret of this configuration, for `redact`."""
        found = [*self.server.keys, *(k.key for k in self.keys.values())]
        for provider in self.providers.values():
            found += [provider.api_key] if provider.api_key is not None else []
            found += provider.headers.values()
        proxies = (self.outbound.proxy, *(provider.proxy for provider in self.providers.values()))
        found += [proxy for proxy in proxies if proxy is not None and proxy.reveal() != DIRECT]
        return tuple(found)
