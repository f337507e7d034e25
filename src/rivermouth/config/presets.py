"""Providers that need only a key.  Adding one is one entry of this table.

`keys` are the environment variables that switch the preset on, the first that is set winning; `address` is one that
moves it (and switches it on, where no key is needed).  `base_url` is what the dialect's paths are appended to.
"""

from __future__ import annotations

from typing import Final

import msgspec


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """Where a vendor lives and how it wants to be spoken to."""

    dialect: str
    base_url: str
    keys: tuple[str, ...] = ()
    address: str | None = None
    quirks: frozenset[str] = frozenset()


QUIRKS: Final = frozenset(
    {
        "max_completion_tokens",
        "max_tokens",
        "no_logit_bias",
        "no_metadata",
        "no_parallel_tool_calls",
        "no_penalties",
        "no_seed",
        "no_stream_options",
    }
)
"""The words that `quirks` may hold.  `rivermouth.providers.quirks` says what each does; a test compares the two."""

PRESETS: Final[dict[str, Preset]] = {
    "openai": Preset(dialect="openai_chat", base_url="https://api.openai.com/v1", keys=("OPENAI_API_KEY",)),
    "anthropic": Preset(dialect="anthropic", base_url="https://api.anthropic.com/v1", keys=("ANTHROPIC_API_KEY",)),
    "groq": Preset(
        dialect="openai_chat",
        base_url="https://api.groq.com/openai/v1",
        keys=("GROQ_API_KEY",),
        quirks=frozenset({"max_tokens", "no_logit_bias"}),
    ),
    "kimi": Preset(
        dialect="openai_chat",
        base_url="https://api.moonshot.ai/v1",
        keys=("KIMI_API_KEY", "MOONSHOT_API_KEY"),
        quirks=frozenset({"max_tokens"}),
    ),
    "gemini": Preset(
        dialect="openai_chat",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        quirks=frozenset({"max_tokens", "no_metadata", "no_penalties", "no_seed"}),
    ),
    "ollama": Preset(dialect="ollama", base_url="http://127.0.0.1:11434/api", address="OLLAMA_HOST"),
}
