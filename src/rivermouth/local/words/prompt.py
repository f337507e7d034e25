"""A neutral request as the messages of a chat template, or as plain text where there is no template.

Every part becomes text.  What a text-only model cannot be given is refused (an image), what it can do without is
named through `warn` (thoughts of earlier turns, where the template does not take them).

Some templates are strict about the calls of earlier turns, and refuse the whole talk otherwise: Mistral's wants ids of
9 letters and digits, Llama 3's one call in each turn, Hermes's the function's name with each result.  So ids are
spelled anew and turns divided for them, and names are filled in.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any, Final, assert_never

import msgspec

from rivermouth.ir.errors import ApiError, Kind, WireError, invalid
from rivermouth.ir.request import (
    Audio,
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
from rivermouth.local.words.families import Calls, Family
from rivermouth.local.words.protocol import Turn
from rivermouth.wire import json

Warner = Callable[[str], None]

STOPS_CAP: Final = 64
STOP_CAP_CHARS: Final = 1_000

PLAIN: Final = Family()
MISTRAL_ID_CHARS: Final = 9
_MISTRAL_ID: Final = re.compile(rf"[A-Za-z0-9]{{{MISTRAL_ID_CHARS}}}")

PREFIXES: Final[dict[str, str]] = {
    Role.SYSTEM.value: "System",
    Role.USER.value: "User",
    Role.ASSISTANT.value: "Assistant",
    Role.TOOL.value: "Tool",
}


def check_limits(request: Request) -> None:
    """Refuses what cannot be done, or not rightly.  Raises `ApiError`."""
    if request.n != 1:
        raise invalid("a local model gives one answer at a time", param="n")
    if request.max_tokens is not None and request.max_tokens < 1:
        raise invalid("max_tokens must be at least 1", param="max_tokens")
    if len(request.stop) > STOPS_CAP:
        raise invalid(f"there may be {STOPS_CAP} stop strings, not {len(request.stop)}", param="stop")
    longest = max(map(len, request.stop), default=0)
    if longest > STOP_CAP_CHARS:
        raise invalid(f"a stop string may have {STOP_CAP_CHARS} characters, not {longest}", param="stop")


def turns_of(
    request: Request, warn: Warner, family: Family = PLAIN, described: tuple[dict[str, object], ...] = ()
) -> tuple[Turn, ...]:
    """The messages for a chat template of this family.  Raises `ApiError` for a part that is not text.

    described: tools that the template does not show, so that the instructions have to.
    """
    system = [part.text for part in request.system if part.text]
    said = _named([turn for message in request.messages for turn in _turns(message, family, warn)])
    if not system and not said:
        raise invalid("there is no message to answer", param="messages")
    if described:
        system.append(description_of(described))
    lead = [Turn(Role.SYSTEM.value, "\n\n".join(system))] if system else []
    return (*lead, *(one_by_one(said) if family.calls is Calls.LLAMA3 else said))


def description_of(tools: tuple[dict[str, object], ...]) -> str:
    """Tools in words, for a model whose template does not show them and whose answer will be a call."""
    listed = "\n".join(json.encode(tool["function"]).decode() for tool in tools)
    return (
        "You can call these functions:\n"
        f"{listed}\n"
        'Answer with one call, as JSON: {"name": the function\'s name, "arguments": its arguments}.'
    )


def one_by_one(turns: list[Turn]) -> list[Turn]:
    """The same talk with one call in each turn, its result behind it."""
    divided: list[Turn] = []
    rest = list(reversed(turns))
    while rest:
        turn = rest.pop()
        if len(turn.tool_calls) < 2:
            divided.append(turn)
            continue
        results: list[Turn] = []
        while rest and rest[-1].role == Role.TOOL.value:
            results.append(rest.pop())
        for number, call in enumerate(turn.tool_calls):
            spoken = turn if number == 0 else Turn(turn.role, "", name=turn.name)
            divided.append(msgspec.structs.replace(spoken, tool_calls=(call,)))
            divided += [result for result in results if result.tool_call_id == call["id"]]
        ids = {call["id"] for call in turn.tool_calls}
        divided += [result for result in results if result.tool_call_id not in ids]
    return divided


def raw_prompt(request: Request, warn: Warner) -> str:
    """The text to go on from: no template, no roles."""
    texts = [part.text for part in request.system]
    for message in request.messages:
        texts += [_text(part, warn) for part in message.parts]
    return "".join(texts)


def role_prefixed(turns: tuple[Turn, ...]) -> str:
    """The legacy form: each message after the name of its role, and the assistant's turn left open."""
    lines = [f"{PREFIXES[turn.role]}: {_said(turn)}" for turn in turns]
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


def check_length(texts: int, longest_token_bytes: int, context_tokens: int, param: str = "messages") -> None:
    """Refuses `texts` bytes that cannot fit whatever the tokens are, before any are counted."""
    if texts > longest_token_bytes * context_tokens:
        what = "the prompt" if param == "messages" else f"what is in {param},"
        raise context_exceeded(f"{what} of {texts} bytes", context_tokens, param)


def context_exceeded(what: str, context_tokens: int, param: str = "messages") -> ApiError:
    """The typed error of R29."""
    return ApiError(
        Kind.INVALID_REQUEST,
        f"{what} does not fit into the context of {context_tokens} tokens with room for an answer",
        param=param,
        code="context_length_exceeded",
    )


def _turns(message: Message, family: Family, warn: Warner) -> list[Turn]:
    identity = _mistral_id if family.calls is Calls.MISTRAL else str
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    if any(result.is_error for result in results):
        warn("tool_result.is_error")
    if results:
        return [
            Turn(Role.TOOL.value, "".join(_text(p, warn) for p in r.content), name=r.name, tool_call_id=identity(r.id))
            for r in results
        ]
    calls = tuple(_call(part, identity, text=family.quotes) for part in message.parts if isinstance(part, ToolCall))
    thoughts = [part.text for part in message.parts if isinstance(part, Reasoning)] if family.recalls else []
    content = "".join(
        _text(part, warn)
        for part in message.parts
        if not isinstance(part, ToolCall) and not (family.recalls and isinstance(part, Reasoning) and part.text)
    )
    thought = "".join(thoughts) or None
    return [Turn(message.role.value, content, name=message.name, reasoning_content=thought, tool_calls=calls)]


def _named(turns: list[Turn]) -> list[Turn]:
    """The same turns; a result that does not say what it is of has the name of its call."""
    names = {call["id"]: call["function"]["name"] for turn in turns for call in turn.tool_calls}
    return [
        msgspec.structs.replace(turn, name=names[turn.tool_call_id])
        if turn.role == Role.TOOL.value and turn.name is None and turn.tool_call_id in names
        else turn
        for turn in turns
    ]


def _call(part: ToolCall, identity: Callable[[str], str], *, text: bool) -> dict[str, Any]:
    """As templates expect it: the arguments as an object, or as text when they are not one or `text` is wanted."""
    try:
        arguments = json.decode(part.arguments.encode(errors="replace")) if part.arguments else {}
    except WireError:
        arguments = part.arguments
    if text:
        arguments = part.arguments or "{}"
    return {"id": identity(part.id), "type": "function", "function": {"name": part.name, "arguments": arguments}}


def _mistral_id(identity: str) -> str:
    """The id itself if it is as the template wants it, else always the same one for the same id."""
    if _MISTRAL_ID.fullmatch(identity):
        return identity
    return hashlib.sha256(identity.encode(errors="replace")).hexdigest()[:MISTRAL_ID_CHARS]


def _said(turn: Turn) -> str:
    """What a turn says, where there is no template to write its calls."""
    calls = [json.encode(call["function"]).decode() for call in turn.tool_calls]
    return "\n".join([turn.content, *calls] if turn.content or not calls else calls)


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
