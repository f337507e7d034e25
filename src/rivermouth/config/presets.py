"""Providers that need only a key.  Adding one is one entry of this table.

`keys` are the environment variables that switch the preset on, the first that is set winning; `address` is one that
moves it (and switches it on, where no key is needed).  `base_url` is what the dialect's paths are appended to;
`regions` are the variables that say the region in it, and no region is ever guessed.  `only_by_file`: the environment
never switches it on, because its key belongs to another preset: with both on, a bare model name would be ambiguous.
`needs_address`: everybody has a place of his own there, so that the key alone switches nothing on.  `key_header` is
where the key goes, if not where the dialect has it.
"""

from __future__ import annotations

from typing import Final

import msgspec

REGION: Final = "{region}"
"""Where in a base URL the region stands."""


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """Where a vendor lives and how it wants to be spoken to."""

    dialect: str
    base_url: str
    keys: tuple[str, ...] = ()
    address: str | None = None
    regions: tuple[str, ...] = ()
    quirks: frozenset[str] = frozenset()
    only_by_file: bool = False
    needs_address: bool = False
    key_header: str | None = None

    @property
    def beside(self) -> tuple[str, ...]:
        """The variables of which one must be set beside the key."""
        return (self.address,) if self.needs_address and self.address is not None else self.regions


QUIRKS: Final = frozenset(
    {
        "max_completion_tokens",
        "max_tokens",
        "no_list",
        "no_logit_bias",
        "no_logprobs",
        "no_metadata",
        "no_parallel_tool_calls",
        "no_penalties",
        "no_seed",
        "no_stream_options",
        "no_user",
        "random_seed",
    }
)
"""The words that `quirks` may hold.  `rivermouth.providers.quirks` says what each does; a test compares the two."""

GOOGLE: Final = "https://generativelanguage.googleapis.com"
GOOGLE_KEYS: Final = ("GEMINI_API_KEY", "GOOGLE_API_KEY")

PRESETS: Final[dict[str, Preset]] = {
    "openai": Preset(dialect="openai_chat", base_url="https://api.openai.com/v1", keys=("OPENAI_API_KEY",)),
    "anthropic": Preset(dialect="anthropic", base_url="https://api.anthropic.com/v1", keys=("ANTHROPIC_API_KEY",)),
    "groq": Preset(
        dialect="openai_chat",
        base_url="https://api.groq.com/openai/v1",
        keys=("GROQ_API_KEY",),
        quirks=frozenset({"max_tokens", "no_logit_bias", "no_logprobs"}),
    ),
    "kimi": Preset(
        dialect="openai_chat",
        base_url="https://api.moonshot.ai/v1",
        keys=("KIMI_API_KEY", "MOONSHOT_API_KEY"),
        quirks=frozenset({"max_tokens"}),
    ),
    "gemini": Preset(dialect="gemini", base_url=f"{GOOGLE}/v1beta", keys=GOOGLE_KEYS),
    "gemini-openai": Preset(
        dialect="openai_chat",
        base_url=f"{GOOGLE}/v1beta/openai",
        keys=GOOGLE_KEYS,
        quirks=frozenset({"max_tokens", "no_metadata", "no_penalties", "no_seed"}),
        only_by_file=True,
    ),
    "cohere": Preset(dialect="cohere_v2", base_url="https://api.cohere.com/v2", keys=("CO_API_KEY", "COHERE_API_KEY")),
    # It refuses every field that it does not know.
    "mistral": Preset(
        dialect="openai_chat",
        base_url="https://api.mistral.ai/v1",
        keys=("MISTRAL_API_KEY",),
        quirks=frozenset(
            {
                "max_tokens",
                "no_logit_bias",
                "no_logprobs",
                "no_metadata",
                "no_stream_options",
                "no_user",
                "random_seed",
            }
        ),
    ),
    "deepseek": Preset(
        dialect="openai_chat",
        base_url="https://api.deepseek.com",
        keys=("DEEPSEEK_API_KEY",),
        quirks=frozenset({"max_tokens"}),
    ),
    "openrouter": Preset(
        dialect="openai_chat",
        base_url="https://openrouter.ai/api/v1",
        keys=("OPENROUTER_API_KEY",),
        quirks=frozenset({"max_tokens"}),
    ),
    "together": Preset(
        dialect="openai_chat",
        base_url="https://api.together.ai/v1",
        keys=("TOGETHER_API_KEY",),
        quirks=frozenset({"max_tokens"}),
    ),
    # Only the variable that has its name switches it on: many machines have AWS credentials for something else.
    "bedrock": Preset(
        dialect="bedrock_invoke",
        base_url="https://bedrock-runtime.{region}.amazonaws.com",
        keys=("AWS_BEARER_TOKEN_BEDROCK",),
        regions=("AWS_REGION", "AWS_DEFAULT_REGION"),
    ),
    # The models whose bodies InvokeModel does not share with another API.
    "bedrock-converse": Preset(
        dialect="bedrock_converse",
        base_url="https://bedrock-runtime.{region}.amazonaws.com",
        keys=("AWS_BEARER_TOKEN_BEDROCK",),
        regions=("AWS_REGION", "AWS_DEFAULT_REGION"),
        only_by_file=True,
    ),
    # Its models are deployments with names of their own, and its list is one of other names.
    "azure": Preset(
        dialect="openai_chat",
        base_url="https://{resource}.openai.azure.com/openai/v1",
        keys=("AZURE_OPENAI_API_KEY",),
        address="AZURE_OPENAI_ENDPOINT",
        quirks=frozenset({"no_list"}),
        needs_address=True,
        key_header="api-key",
    ),
    # Servers of one's own: the variable says where one is, and switches it on.
    "ollama": Preset(dialect="ollama", base_url="http://127.0.0.1:11434/api", address="OLLAMA_HOST"),
    "vllm": Preset(
        dialect="openai_chat",
        base_url="http://127.0.0.1:8000/v1",
        address="VLLM_BASE_URL",
        quirks=frozenset({"max_tokens"}),
    ),
    "llamacpp": Preset(
        dialect="openai_chat",
        base_url="http://127.0.0.1:8080/v1",
        address="LLAMACPP_BASE_URL",
        quirks=frozenset({"max_tokens"}),
    ),
    "lmstudio": Preset(
        dialect="openai_chat",
        base_url="http://127.0.0.1:1234/v1",
        address="LMSTUDIO_BASE_URL",
        quirks=frozenset({"max_tokens"}),
    ),
    "tgi": Preset(dialect="tgi", base_url="http://127.0.0.1:3000", address="TGI_BASE_URL"),
}
