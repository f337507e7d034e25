"""What maps to what, as data."""

from __future__ import annotations

from typing import Final

from rivermouth.ir.events import Reason
from rivermouth.ir.request import Role, Sampling
from rivermouth.vendors.openai import finish
from rivermouth.vendors.openai.bodies import Ranges

NAME: Final = "openai_completions"
PATH: Final = "/completions"

FINISH_OUT: Final[dict[Reason, str]] = {
    Reason.STOP: "stop",
    Reason.LENGTH: "length",
    Reason.TOOL_CALLS: "stop",
    Reason.CONTENT_FILTER: "content_filter",
}
FINISH_IN: Final = finish.FINISH_IN
FINISH_FAILED: Final = finish.FINISH_FAILED

# How a talk of several turns is written as one text.
SPEAKERS: Final[dict[Role, str]] = {Role.SYSTEM: "System", Role.USER: "User", Role.ASSISTANT: "Assistant"}

SAMPLING: Final = ("temperature", "top_p", "seed", "frequency_penalty", "presence_penalty", "logit_bias")

# field -> (least, greatest) that the vendor's API takes; None is no bound.
RANGES: Final[Ranges] = {
    "n": (1, 128),
    "best_of": (1, 128),
    "max_tokens": (0, None),
    "temperature": (0, 2),
    "top_p": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "logprobs": (0, 20),
}

# Wishes of a client that only an upstream of this dialect can meet, and which the answer is right without.
UNMET: Final = ("best_of", "echo", "logprobs", "suffix")

# What this dialect cannot carry, in the words of the neutral model.
LOSSES: Final = frozenset(
    {
        *(name for name in Sampling.__struct_fields__ if name not in SAMPLING),
        "thinking",
        "keep_alive_s",
        "context_tokens",
        "metadata",
        "messages.reasoning",
    }
)
