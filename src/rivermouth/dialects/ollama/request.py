"""A client's chat or generate body to a neutral `Request`.

Tool calls and tool results come without ids from most clients (the Python SDK drops them), so ids are made here from
the position of the call, the same for the same body; a result finds its call by id, else by name, else by order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from typing import Any, Final

import msgspec

from rivermouth.dialects.dialect import Route
from rivermouth.dialects.ollama import media
from rivermouth.dialects.ollama.bodies import reader
from rivermouth.dialects.ollama.tables import NAME, ROLES, SAMPLING, THINK_LEVELS
from rivermouth.dialects.ollama.times import duration_s
from rivermouth.ir.call_ids import Pairing
from rivermouth.ir.errors import WireError, invalid
from rivermouth.ir.names import loss_names, model_name, unread
from rivermouth.ir.request import (
    Format,
    Local,
    Message,
    Original,
    Part,
    Reasoning,
    Request,
    ResponseFormat,
    Role,
    Sampling,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    instructions,
)
from rivermouth.wire import json

_OPTIONS: Final = frozenset({*SAMPLING, "num_predict", "num_ctx", "stop"})


class _Function(msgspec.Struct, gc=False):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"null")


class _Call(msgspec.Struct, gc=False):
    function: _Function
    id: str | None = None


class _Message(msgspec.Struct, gc=False):
    role: str
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[_Call] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    name: str | None = None


class _ToolFunction(msgspec.Struct, gc=False):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class _Tool(msgspec.Struct, gc=False):
    function: _ToolFunction
    type: str = "function"


class _Common(msgspec.Struct, kw_only=True):
    model: str = ""
    name: str = ""
    stream: bool | None = None
    format: str | dict[str, Any] | None = None
    keep_alive: float | str | None = None
    options: dict[str, Any] | None = None
    think: bool | str | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None


class _Chat(_Common, kw_only=True):
    messages: list[_Message] | None = None
    tools: list[_Tool] | None = None


class _Generate(_Common, kw_only=True):
    prompt: str | None = None
    suffix: str | None = None
    system: str | None = None
    template: str | None = None
    context: list[int] | None = None
    raw: bool | None = None
    images: list[str] | None = None


_read_chat: Final = reader(_Chat)
_read_generate: Final = reader(_Generate)


def parse_request(body: bytes, route: Route, path_model: str | None = None) -> Request:
    """The request of either route.  No messages means: only load the model (or unload it); see `standby`.

    `stream` absent means true.  Raises `ApiError` (invalid_request) with the field's path as `param`.
    """
    return _PARSERS[route.kind](body)


def _parse_chat(body: bytes) -> Request:
    chat = _read_chat(body)
    fields = json.fields(body)
    fields.setdefault("messages", msgspec.Raw(b"[]"))  # it tells a chat body from a generate body later on
    pairing = Pairing(c.id for m in chat.messages or [] for c in m.tool_calls or [] if c.id)
    messages = [_message(m, i, pairing) for i, m in enumerate(chat.messages or [])]
    system, talk = instructions(messages)
    tools = tuple(_tool(i, t) for i, t in enumerate(chat.tools or []))
    return _request(chat, fields, talk, system, tools)


def _parse_generate(body: bytes) -> Request:
    asked = _read_generate(body)
    fields = json.fields(body)
    fields.pop("messages", None)
    parts: list[Part] = [Text(asked.prompt)] if asked.prompt else []
    parts += [media.image(data, f"images[{i}]") for i, data in enumerate(asked.images or [])]
    messages = (Message(Role.USER, tuple(parts)),) if asked.prompt else ()
    system = (Text(asked.system),) if asked.system else ()
    request = _request(asked, fields, messages, system, ())
    unspoken = tuple(f for f in ("suffix", "template", "context") if getattr(asked, f))
    local = msgspec.structs.replace(request.local, raw=bool(asked.raw))
    return msgspec.structs.replace(request, local=local, untranslatable=unspoken)


_PARSERS: Final[dict[str, Callable[[bytes], Request]]] = {"chat": _parse_chat, "generate": _parse_generate}


def _request(
    asked: _Common,
    fields: dict[str, msgspec.Raw],
    messages: tuple[Message, ...],
    system: tuple[Text, ...],
    tools: tuple[Tool, ...],
) -> Request:
    options = asked.options or {}
    predict = _number(options, "num_predict", int)
    return Request(
        model=model_name(asked.model, asked.name),
        messages=messages,
        system=system,
        stream=asked.stream is not False,
        include_usage=True,
        max_tokens=int(predict) if predict is not None and predict > 0 else None,  # -1 and -2 mean "no limit"
        stop=_stop(options.get("stop")),
        tools=tools,
        response_format=_format(asked.format),
        sampling=_sampling(options, asked),
        thinking=_thinking(asked.think),
        local=local_wishes(asked.keep_alive, options),
        original=Original(NAME, fields),
        unmodelled=unmodelled(fields, asked.__struct_fields__, options, _OPTIONS),
    )


def unmodelled(
    fields: dict[str, msgspec.Raw], read: Container[str], options: dict[str, Any] | None, read_options: Container[str]
) -> tuple[str, ...]:
    """What only an Ollama upstream knows: members and options that nobody reads here."""
    beside = (f"options.{o}" for o, value in (options or {}).items() if value is not None and o not in read_options)
    return loss_names([*unread(fields, read), *beside])


def local_wishes(keep_alive: float | str | None, options: dict[str, Any] | None) -> Local:
    """`keep_alive` (seconds or a Go duration) and `options.num_ctx`."""
    try:
        seconds = duration_s(keep_alive) if isinstance(keep_alive, str) else keep_alive
    except ValueError as error:
        raise invalid(str(error), "keep_alive") from None
    context = _number(options or {}, "num_ctx", int)
    return Local(keep_alive_s=seconds, context_tokens=int(context) if context is not None and context > 0 else None)


def _sampling(options: dict[str, Any], asked: _Common) -> Sampling:
    said = {field: _number(options, option, kind) for option, (field, kind) in SAMPLING.items()}
    if (seed := said["seed"]) is not None and seed < 0:  # -1 asks for a random one
        said["seed"] = None
    return Sampling(logprobs=asked.logprobs, top_logprobs=asked.top_logprobs, **said)  # type: ignore[arg-type]


def _number(options: dict[str, Any], option: str, kind: Callable[[float], float]) -> float | None:
    value = options.get(option)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise invalid(f"option {option!r} must be a number", f"options.{option}")
    return kind(value)


def _stop(value: Any) -> tuple[str, ...]:
    match value:
        case None | "":
            return ()
        case str():
            return (value,)
        case list() if all(isinstance(v, str) for v in value):
            return tuple(v for v in value if v)
    raise invalid("option 'stop' must be a list of strings", "options.stop")


def _format(value: str | dict[str, Any] | None) -> ResponseFormat | None:
    match value:
        case None | "":
            return None
        case "json":
            return ResponseFormat(Format.JSON)
        case dict():
            return ResponseFormat(Format.JSON_SCHEMA, schema=value)
    raise invalid('format must be "json" or a JSON schema', "format")


def _thinking(value: bool | str | None) -> Thinking | None:
    match value:
        case None:
            return None
        case bool():
            return Thinking(enabled=value)
        case str() if value in THINK_LEVELS:
            return Thinking(effort=value)
    raise invalid(f"think must be true, false or one of {', '.join(THINK_LEVELS)}", "think")


def _tool(index: int, tool: _Tool) -> Tool:
    function = tool.function
    if tool.type != "function" or not function.name:
        field = "type" if function.name else "function.name"
        raise invalid("a tool is a function with a name", f"tools[{index}].{field}")
    if function.parameters is None:
        return Tool(function.name, function.description, strict=function.strict)
    return Tool(function.name, function.description, function.parameters, function.strict)


def _message(message: _Message, index: int, pairing: Pairing) -> Message:
    role = ROLES.get(message.role)
    if role is None:
        raise invalid(f"role must be one of {', '.join(ROLES)}", f"messages[{index}].role")
    content = (Text(message.content),) if message.content else ()
    images = tuple(media.image(d, f"messages[{index}].images[{i}]") for i, d in enumerate(message.images or []))
    if role is Role.TOOL:
        identity, name = pairing.result(message.tool_call_id, message.tool_name or message.name, str(index))
        return Message(role, (ToolResult(identity, (*content, *images), name=name),))
    thinking = (Reasoning(message.thinking),) if message.thinking else ()
    calls = (_call(c, pairing, index, i) for i, c in enumerate(message.tool_calls or []))
    return Message(role, (*thinking, *content, *images, *calls))


def _call(call: _Call, pairing: Pairing, message: int, index: int) -> ToolCall:
    name = call.function.name
    place = f"messages[{message}].tool_calls[{index}].function"
    if not name:
        raise invalid("a tool call needs the function's name", f"{place}.name")
    identity = pairing.call(call.id, name, f"{message}_{index}")
    return ToolCall(identity, name, _arguments(call.function.arguments, f"{place}.arguments"))


def _arguments(raw: msgspec.Raw, param: str) -> str:
    """An object as its JSON text; the text itself where a client sends a string as OpenAI does."""
    try:
        text = bytes(raw).decode()
        if text[:1] == "{":
            return text
        value = json.decode(raw)
    except (WireError, UnicodeDecodeError):
        value = 0
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise invalid("the arguments of a tool call are a JSON object", param)
