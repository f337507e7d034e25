"""What the words of the protocol mean, as data.  Every table that maps from an enum is total; a test walks it."""

from __future__ import annotations

import re
from typing import Final

from rivermouth.ir.events import Reason

NAME: Final = "bedrock_invoke"

# The kinds of routes.
INVOKE: Final = "invoke"
INVOKE_STREAM: Final = "invoke_stream"
COUNT: Final = "count"
EMBED: Final = "embed"

# Titan's words for an end.  Streams are known to say FINISH where the documentation says FINISHED.
TITAN_OUT: Final[dict[Reason, str]] = {
    Reason.STOP: "FINISH",
    Reason.LENGTH: "LENGTH",
    Reason.TOOL_CALLS: "FINISH",
    Reason.CONTENT_FILTER: "CONTENT_FILTERED",
}
TITAN_STOP_SEQUENCE: Final = "STOP_CRITERIA_MET"
TITAN_IN: Final[dict[str, Reason]] = {
    "FINISH": Reason.STOP,
    "FINISHED": Reason.STOP,
    TITAN_STOP_SEQUENCE: Reason.STOP,
    "RAG_QUERY_WHEN_RAG_DISABLED": Reason.STOP,
    "LENGTH": Reason.LENGTH,
    "CONTENT_FILTERED": Reason.CONTENT_FILTER,
}


LLAMA_OUT: Final[dict[Reason, str]] = {
    Reason.STOP: "stop",
    Reason.LENGTH: "length",
    Reason.TOOL_CALLS: "stop",
    Reason.CONTENT_FILTER: "stop",
}
LLAMA_IN: Final[dict[str, Reason]] = {"stop": Reason.STOP, "length": Reason.LENGTH}
MISTRAL_OUT: Final[dict[Reason, str]] = LLAMA_OUT
MISTRAL_IN: Final[dict[str, Reason]] = LLAMA_IN

# Model ids -> whose body they take.  An inference profile has a region before it; what names nobody is asked as the
# first of the table, which has the most to say.  Not every model of a vendor takes the vendor's body: newer ones have
# others, and all of them are spoken to by Converse.
ANTHROPIC: Final = "anthropic"
TITAN: Final = "titan"
NOVA: Final = "nova"
LLAMA: Final = "llama"
MISTRAL: Final = "mistral"
COHERE: Final = "cohere"
MODELS: Final[tuple[tuple[re.Pattern[str], str | None], ...]] = (
    (re.compile(r"(?:^|[./])anthropic\.|claude"), ANTHROPIC),
    (re.compile(r"(?:^|[./])amazon\.titan|(?:^|[./])titan"), TITAN),
    (re.compile(r"(?:^|[./])amazon\.nova|(?:^|[./])nova"), NOVA),
    (re.compile(r"(?:^|[./])meta\.llama"), LLAMA),
    (re.compile(r"(?:^|[./])mistral\.(?:devstral|magistral|ministral|pixtral|voxtral|mistral-large-(?!2402))"), None),
    (re.compile(r"(?:^|[./])mistral\."), MISTRAL),
    (re.compile(r"(?:^|[./])cohere\.command-[ar]"), COHERE),
    (re.compile(r"(?:^|[./])(?:ai21|amazon|cohere|deepseek|google|luma|meta|minimax|moonshot|moonshotai|nvidia"
                r"|openai|qwen|stability|twelvelabs|writer|zai)\."), None),
)  # fmt: skip

# What the bodies of one text cannot carry, or not all of them, as `build_request` names it.
TEXT_LOSSES: Final = frozenset(
    {
        "context_tokens",
        "frequency_penalty",
        "keep_alive_s",
        "logit_bias",
        "logprobs",
        "messages.control_tokens",
        "messages.reasoning",
        "metadata",
        "keep_end",
        "min_p",
        "presence_penalty",
        "raw",
        "repetition_penalty",
        "seed",
        "stop",
        "temperature",
        "thinking",
        "top_k",
        "top_logprobs",
        "truncate",
        "user",
    }
)


def body_of_model(model: str) -> str | None:
    """Whose body the model takes; None for a vendor whose body is not spoken here."""
    for pattern, body in MODELS:
        if pattern.search(model):
            return body
    return ANTHROPIC
