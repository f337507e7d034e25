"""Tool calls on this wire: whole, with the arguments as a JSON *object* and not as text.

The model's text is only an object if it is valid JSON.  What is not (it was cut by the token limit, or the model wrote
nonsense) cannot be spoken as a call, and an invented `{}` would call the tool with wrong arguments; so it is passed on
as what it is, text, which is also what Ollama does with a call that its parser does not recognise.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rivermouth.ir.errors import WireError
from rivermouth.ir.request import ToolCall
from rivermouth.wire import json


def arguments_object(text: str) -> msgspec.Raw | None:
    """The arguments as one line of JSON, numbers as the model wrote them; None when they are no object."""
    text = text.strip()
    if text in ("", "null"):
        return msgspec.Raw(b"{}")
    try:
        data = text.encode()
        json.fields(data)
        return msgspec.Raw(json.encode(json.decode(data)) if "\n" in text or "\r" in text else json.line_safe(data))
    except (WireError, UnicodeEncodeError):
        return None


def wire_call(call: ToolCall, index: int) -> dict[str, Any] | None:
    """The call as an element of `tool_calls`; None when its arguments are no object."""
    arguments = arguments_object(call.arguments)
    if arguments is None:
        return None
    return {"id": call.id, "function": {"index": index, "name": call.name, "arguments": arguments}}


def as_text(call: ToolCall) -> str:
    """A call that cannot be spoken as one."""
    return f'{{"name": {json.encode(call.name).decode()}, "arguments": {call.arguments}}}'
