"""A neutral request as the messages of a chat template, or as plain text where there is no template.

Every part becomes text.  What a text-only model cannot be given is refused (an image), what it can do without is
named through `warn` (another model's reasoning).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never

from rivermouth.ir.errors import ApiError, Kind, WireError, invalid
from rivermouth.ir.request import (
    Audio,
    Choose,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    Request,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from rivermouth.local.protocol import Turn
from rivermouth.wire import json

Warner = Callable[[str], None]

STOPS_CAP: Final = 64
STOP_CAP_CHARS: Final = 1_000

PREFIXES: Final[dict[str, str]] = {
    Role.SYSTEM.value: "System",
    Role.USER.value: "User",
    Role.ASSISTANT.value: "Assistant",
    Role.TOOL.value: "Tool",
}


def check_abilities(request: Request, warn: Warner) -> None:
    """Refuses what would make the answer wrong, and names what is ignored.  Raises `ApiError`."""
    if request.n != 1:
        raise invalid("a local model gives one answer at a time", param="n")
    if request.max_tokens is not None and request.max_tokens < 1:
        raise invalid("max_tokens must be at least 1", param="max_tokens")
    if len(request.stop) > STOPS_CAP:
        raise invalid(f"there may be {STOPS_CAP} stop strings, not {len(request.stop)}", param="stop")
    longest = max(map(len, request.stop), default=0)
    if longest > STOP_CAP_CHARS:
        raise invalid(f"a stop string may have {STOP_CAP_CHARS} characters, not {longest}", param="stop")
    if request.tool_choice is not None and request.tool_choice.mode in (Choose.REQUIRED, Choose.NAMED):
        raise invalid("local models cannot be made to call a tool", param="tool_choice")
    if request.tools and (request.tool_choice is None or request.tool_choice.mode is Choose.AUTO):
        warn("tools")


def turns_of(request: Request, warn: Warner) -> tuple[Turn, ...]:
    """The messages for the chat template.  Raises `ApiError` for a part that is not text."""
    system = "\n\n".join(part.text for part in request.system if part.text)
    turns = [Turn(Role.SYSTEM.value, system)] if system else []
    for message in request.messages:
        turns += _turns(message, warn)
    if not turns:
        raise invalid("there is no message to answer", param="messages")
    return tuple(turns)


def raw_prompt(request: Request, warn: Warner) -> str:
    """The text to go on from: no template, no roles."""
    texts = [part.text for part in request.system]
    for message in request.messages:
        texts += [_text(part, warn) for part in message.parts]
    return "".join(texts)


def role_prefixed(turns: tuple[Turn, ...]) -> str:
    """The legacy form: each message after the name of its role, and the assistant's turn left open."""
    lines = [f"{PREFIXES[turn.role]}: {turn.content}" for turn in turns]
    return "\n".join([*lines, f"{PREFIXES['assistant']}:"])


def context_of(request: Request, most_tokens: int, warn: Warner) -> int:
    """The context window of this call: what was asked for, but no more than the model has.  Raises `ApiError`."""
    asked = request.local.context_tokens
    if asked is None:
        return most_tokens
    if asked < 1:
        raise invalid("the context must have at least 1 token", param="context_tokens")
    if asked > most_tokens:
        warn("context_tokens")
    return min(asked, most_tokens)


def size_of(turns: tuple[Turn, ...]) -> int:
    """The bytes of all that the messages say, their tool calls as JSON."""
    return sum(
        len(turn.content.encode(errors="replace")) + sum(len(json.encode(call["function"])) for call in turn.tool_calls)
        for turn in turns
    )


def check_length(texts: int, longest_token_bytes: int, context_tokens: int) -> None:
    """Refuses `texts` bytes that cannot fit whatever the tokens are, before any are counted."""
    if texts > longest_token_bytes * context_tokens:
        raise context_exceeded(f"the prompt of {texts} bytes", context_tokens)


def context_exceeded(what: str, context_tokens: int) -> ApiError:
    """The typed error of R29."""
    return ApiError(
        Kind.INVALID_REQUEST,
        f"{what} does not fit into the context of {context_tokens} tokens with room for an answer",
        param="messages",
        code="context_length_exceeded",
    )


def _turns(message: Message, warn: Warner) -> list[Turn]:
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    if results:
        return [
            Turn(Role.TOOL.value, "".join(_text(p, warn) for p in r.content), name=r.name, tool_call_id=r.id)
            for r in results
        ]
    calls = tuple(_call(part) for part in message.parts if isinstance(part, ToolCall))
    content = "".join(_text(part, warn) for part in message.parts if not isinstance(part, ToolCall))
    return [Turn(message.role.value, content, name=message.name, tool_calls=calls)]


def _call(part: ToolCall) -> dict[str, object]:
    """As templates expect it: the arguments as an object, or as text when they are not one."""
    try:
        arguments = json.decode(part.arguments.encode(errors="replace")) if part.arguments else {}
    except WireError:
        arguments = part.arguments
    return {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": arguments}}


def _text(part: Part, warn: Warner) -> str:
    match part:
        case Text() | Refusal():
            return part.text
        case File():
            if part.text is None:
                raise invalid("local models read text; this file has none", param="messages")
            return part.text
        case Reasoning():
            warn("reasoning")
            return ""
        case Image():
            raise invalid("local models cannot see images", param="messages")
        case Audio():
            raise invalid("local models cannot hear audio", param="messages")
        case ToolCall() | ToolResult():
            raise invalid("a completion prompt cannot hold tool calls", param="messages")
        case _:
            assert_never(part)
