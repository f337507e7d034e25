"""Tool calls on this wire: whole, with the arguments as a JSON *object* and not as text.

The model's text is an object if it begins with one that is valid JSON.  What is none (it was cut by the token limit,
or the model wrote nonsense) cannot be spoken as a call, and an invented `{}` would call the tool with wrong arguments;
so it is passed on as what it is, text, which is also what Ollama does with a call that its parser does not recognise.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rivermouth.ir.request import ToolCall
from rivermouth.wire import json
from rivermouth.wire.arguments import as_object, to_object


def wire_call(call: ToolCall, index: int) -> dict[str, Any] | None:
    """A model's call as an element of `tool_calls`; None when its arguments are no object."""
    arguments = as_object(call.arguments)
    return None if arguments is None else _call(call, index, arguments)


def past_call(call: ToolCall, index: int) -> dict[str, Any]:
    """A call of the talk, which has a result: always spoken as a call."""
    return _call(call, index, msgspec.Raw(to_object(call.arguments)))


def _call(call: ToolCall, index: int, arguments: msgspec.Raw) -> dict[str, Any]:
    return {"id": call.id, "function": {"index": index, "name": call.name, "arguments": arguments}}


def as_text(call: ToolCall) -> str:
    """A call that cannot be spoken as one."""
    return f'{{"name": {json.encode(call.name).decode()}, "arguments": {call.arguments}}}'
