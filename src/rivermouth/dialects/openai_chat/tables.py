"""What maps to what, as data.  Tables towards the wire are total over their enum; tables from the wire are open."""

from __future__ import annotations

from typing import Final

from rivermouth.ir.events import PartKind, Reason
from rivermouth.ir.request import Choose, Format, Role
from rivermouth.vendors.openai import finish
from rivermouth.vendors.openai.bodies import Ranges

FINISH_OUT: Final[dict[Reason, str]] = {
    Reason.STOP: "stop",
    Reason.LENGTH: "length",
    Reason.TOOL_CALLS: "tool_calls",
    Reason.CONTENT_FILTER: "content_filter",
}
FINISH_IN: Final = finish.FINISH_IN
FINISH_FAILED: Final = finish.FINISH_FAILED

DELTA_MEMBER: Final[dict[PartKind, str]] = {
    PartKind.TEXT: "content",
    PartKind.REASONING: "reasoning_content",
    PartKind.REFUSAL: "refusal",
    PartKind.TOOL: "tool_calls",
    PartKind.IMAGE: "images",
    PartKind.FILE: "files",
}

ROLES_IN: Final[dict[str, Role]] = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}

CHOOSE_IN: Final[dict[str, Choose]] = {
    "auto": Choose.AUTO,
    "none": Choose.NONE,
    "required": Choose.REQUIRED,
    "any": Choose.REQUIRED,
}

FORMAT_IN: Final[dict[str, Format]] = {
    "text": Format.TEXT,
    "json_object": Format.JSON,
    "json_schema": Format.JSON_SCHEMA,
}
FORMAT_OUT: Final[dict[Format, str]] = {kind: word for word, kind in FORMAT_IN.items()}

# field -> (least, greatest) that the vendor's API takes; None is no bound.
RANGES: Final[Ranges] = {
    "n": (1, 128),
    "max_tokens": (1, None),
    "max_completion_tokens": (1, None),
    "temperature": (0, 2),
    "top_p": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "top_logprobs": (0, 20),
}
