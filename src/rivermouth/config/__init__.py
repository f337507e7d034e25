"""The configuration: `load` it, and every fault in it is named with its file, line and key.

schema: the tables and their keys.  shape: does a document have that shape.  lines: on which line is a key.
check: what needs two tables to judge.  presets: the providers that need only a key.
"""

from __future__ import annotations

from rivermouth.config.check import BUILT_IN, default_model_doubt, find_endpoint, without_region
from rivermouth.config.load import apart_from, load, override, parse
from rivermouth.config.presets import PRESETS, Preset
from rivermouth.config.problems import ConfigError, Problem
from rivermouth.config.schema import (
    AccountsConfig,
    ChatConfig,
    Config,
    EndpointConfig,
    GeminiConfig,
    HttpConfig,
    LocalConfig,
    ModelConfig,
    OpenAiConfig,
    Price,
    ProviderConfig,
    ProviderTimeouts,
    RecordsConfig,
    ResilienceConfig,
    RoutingBlockConfig,
    ServerConfig,
    TimeoutsConfig,
)

__all__ = [
    "BUILT_IN",
    "PRESETS",
    "AccountsConfig",
    "ChatConfig",
    "Config",
    "ConfigError",
    "EndpointConfig",
    "GeminiConfig",
    "HttpConfig",
    "LocalConfig",
    "ModelConfig",
    "OpenAiConfig",
    "Preset",
    "Price",
    "Problem",
    "ProviderConfig",
    "ProviderTimeouts",
    "RecordsConfig",
    "ResilienceConfig",
    "RoutingBlockConfig",
    "ServerConfig",
    "TimeoutsConfig",
    "apart_from",
    "default_model_doubt",
    "find_endpoint",
    "load",
    "override",
    "parse",
    "without_region",
]
