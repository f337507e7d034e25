"""The configuration: `load` it, and every fault in it is named with its file, line and key.

schema: the tables and their keys.  values, names, zones: what these hold.  complete: all of it with the environment, as
the program has it.  shape: does a document have that shape.  lines: on which line is a key.  check, network, telemetry:
what needs more to judge.  problems, plain: what is wrong, and its words.  presets: the providers that need only a key.
live: what a server that runs takes over.
"""

from __future__ import annotations

from rivermouth.config.check import BUILT_IN, default_model_doubt, find_endpoint, scripted_asked, without_place
from rivermouth.config.complete import Config, ProviderConfig
from rivermouth.config.load import apart_from, load, override, parse, remains
from rivermouth.config.presets import PRESETS, Preset
from rivermouth.config.problems import ConfigError, Problem
from rivermouth.config.schema import (
    AccountsConfig,
    Budget,
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
    Price,
    PriceCeiling,
    ProviderTimeouts,
    RateLimits,
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
from rivermouth.config.values import DIRECT, FOREVER, Capability, Order, Retention, Role, Scope

__all__ = [
    "BUILT_IN",
    "DIRECT",
    "FOREVER",
    "PRESETS",
    "AccountsConfig",
    "Budget",
    "Capability",
    "ChatConfig",
    "Config",
    "ConfigError",
    "EndpointConfig",
    "GeminiConfig",
    "HttpConfig",
    "KeyConfig",
    "LimitsConfig",
    "LocalConfig",
    "LogConfig",
    "ModelConfig",
    "OpenAiConfig",
    "Order",
    "OutboundConfig",
    "PolicyConfig",
    "Preset",
    "Price",
    "PriceCeiling",
    "Problem",
    "ProviderConfig",
    "ProviderTimeouts",
    "RateLimits",
    "RecordsConfig",
    "ResilienceConfig",
    "ResponsesConfig",
    "ResumeConfig",
    "Retention",
    "Role",
    "RoutingBlockConfig",
    "Scope",
    "ServerConfig",
    "SovereigntyConfig",
    "TelemetryConfig",
    "TimeoutsConfig",
    "apart_from",
    "default_model_doubt",
    "find_endpoint",
    "load",
    "override",
    "parse",
    "remains",
    "scripted_asked",
    "without_place",
]
