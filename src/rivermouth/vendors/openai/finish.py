"""What `finish_reason` says, in the words of the many servers that write it."""

from __future__ import annotations

from typing import Final

from rivermouth.ir.errors import Kind
from rivermouth.ir.events import Reason

FINISH_IN: Final[dict[str, Reason]] = {
    "stop": Reason.STOP,
    "length": Reason.LENGTH,
    "tool_calls": Reason.TOOL_CALLS,
    "function_call": Reason.TOOL_CALLS,
    "content_filter": Reason.CONTENT_FILTER,
    # Other servers' words for the same.
    "eos": Reason.STOP,
    "eos_token": Reason.STOP,
    "end_turn": Reason.STOP,
    "stop_sequence": Reason.STOP,
    "max_tokens": Reason.LENGTH,
    "model_length": Reason.LENGTH,
    "tool_use": Reason.TOOL_CALLS,
    "tool_call": Reason.TOOL_CALLS,
    "safety": Reason.CONTENT_FILTER,
    "sensitive": Reason.CONTENT_FILTER,
}

FINISH_FAILED: Final[dict[str, Kind]] = {
    "error": Kind.UPSTREAM,
    "network_error": Kind.NETWORK,
    "abort": Kind.TRUNCATED,
    "cancelled": Kind.TRUNCATED,
    "insufficient_system_resource": Kind.OVERLOADED,
}
