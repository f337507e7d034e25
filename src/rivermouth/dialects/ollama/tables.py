"""The words of Ollama beside ours, one table for each vocabulary.  Each table that maps from an enum is total."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rivermouth.ir.events import Reason
from rivermouth.ir.request import Role

NAME: Final = "ollama"

ROLES: Final[dict[str, Role]] = {r.value: r for r in Role}

DONE_REASONS: Final[dict[Reason, str]] = {
    Reason.STOP: "stop",
    Reason.LENGTH: "length",
    Reason.TOOL_CALLS: "stop",
    Reason.CONTENT_FILTER: "stop",
}

REASONS: Final[dict[str, Reason]] = {
    "stop": Reason.STOP,
    "length": Reason.LENGTH,
    "load": Reason.STOP,
    "unload": Reason.STOP,
    "content_filter": Reason.CONTENT_FILTER,
}

# `options` member -> (field of ir Sampling, its type).  Go takes any number for either and cuts it to fit.
SAMPLING: Final[dict[str, tuple[str, Callable[[float], float]]]] = {
    "temperature": ("temperature", float),
    "top_p": ("top_p", float),
    "top_k": ("top_k", int),
    "min_p": ("min_p", float),
    "seed": ("seed", int),
    "presence_penalty": ("presence_penalty", float),
    "frequency_penalty": ("frequency_penalty", float),
    "repeat_penalty": ("repetition_penalty", float),
}

THINK_LEVELS: Final = ("low", "medium", "high", "max")

# How hard to think, in the words of other dialects -> what `think` is set to here.
EFFORTS: Final[dict[str, str | bool]] = {
    "none": False,
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "max",
    "max": "max",
}

# What a request may hold and this wire cannot carry, as `build_request` names it.
LOSSES: Final = frozenset(
    {
        "image.detail",
        "keep_end",
        "logit_bias",
        "logprobs",
        "message.name",
        "metadata",
        "parallel_tools",
        "thinking.budget_tokens",
        "thinking.effort",
        "tool.strict",
        "messages.reasoning",
        "messages.tool_result",
        "top_logprobs",
        "user",
    }
)
