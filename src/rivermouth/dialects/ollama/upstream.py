"""A neutral `Request` to the body of an Ollama upstream.

A client that spoke Ollama too gets its own body through, with only the model (and `stream`, where we want it otherwise)
changed.  Everything else is built, and what this wire cannot carry is either a loss, named, or refused when the answer
would be wrong without it: a forced tool call, several choices, a file, a URL that nobody here fetches.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from rivermouth.dialects.dialect import Outgoing
from rivermouth.dialects.ollama.calls import past_call
from rivermouth.dialects.ollama.tables import EFFORTS, NAME, SAMPLING
from rivermouth.ir.errors import ApiError, invalid
from rivermouth.ir.request import (
    Audio,
    Choose,
    File,
    Format,
    Image,
    Message,
    Original,
    Part,
    Reasoning,
    Refusal,
    Request,
    ResponseFormat,
    Role,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    check_translatable,
)
from rivermouth.ir.turns import LOST, paired, told
from rivermouth.wire import json


def build_request(request: Request, model: str) -> Outgoing:
    """The body for `/chat`, or for `/generate` when the prompt is a raw completion.

    Raises `ApiError` (invalid_request) for what would make the answer wrong if it were left out.
    """
    original = request.original
    if original is not None and original.dialect == NAME:
        return _pass_on(original, request.stream, model)
    _refuse(request)
    losses = _Losses(request.unmodelled)
    body = _prompt(request) if request.local.raw else _talk(request, losses)
    body = {"model": model, **body, "stream": request.stream, **_wishes(request, losses)}
    path = "/generate" if request.local.raw else "/chat"
    return Outgoing(path=path, body=json.encode(body), losses=tuple(sorted(losses.named)))


def touched(original: Original, model: str) -> dict[str, json.Raw]:
    """The client's fields with the upstream's name for the model, in the client's order."""
    fields = {
        "model" if k == "name" else k: v
        for k, v in original.fields.items()
        if k != "name" or "model" not in original.fields
    }
    fields["model"] = json.raw(model)
    return fields


def _pass_on(original: Original, stream: bool, model: str) -> Outgoing:
    fields = touched(original, model)
    if stream is ("stream" in fields and json.decode(fields["stream"]) is False):  # absent means true
        fields["stream"] = json.raw(stream)
    return Outgoing(path="/chat" if "messages" in fields else "/generate", body=json.encode(fields))


def _refuse(request: Request) -> None:
    check_translatable(request)
    if request.n > 1:
        raise invalid("this model gives one answer for each request", "n")
    choice = request.tool_choice
    if request.tools and choice is not None and choice.mode in (Choose.REQUIRED, Choose.NAMED):
        raise invalid("this model cannot be made to call a tool", "tool_choice")
    if request.local.raw and request.tools:
        raise invalid("a raw prompt cannot have tools", "tools")


class _Losses:
    """The names of what could not be carried, each once."""

    def __init__(self, named: Iterable[str]) -> None:
        self.named = set(named)

    def note(self, name: str, lost: object) -> None:
        """`name` is lost if there was something to lose."""
        if lost:
            self.named.add(name)


def _wishes(request: Request, losses: _Losses) -> dict[str, Any]:
    """All members of the body beside the prompt."""
    losses.note("user", request.user)
    losses.note("metadata", request.metadata)
    losses.note("parallel_tools", request.tools and request.parallel_tools is False)
    members = {
        "format": _format(request.response_format),
        "think": _think(request.thinking, losses),
        "keep_alive": request.local.keep_alive_s,
        "options": _options(request, losses) or None,
    }
    return {name: value for name, value in members.items() if value is not None}


def _options(request: Request, losses: _Losses) -> dict[str, Any]:
    sampling = request.sampling
    losses.note("logit_bias", sampling.logit_bias)
    losses.note("logprobs", sampling.logprobs)
    losses.note("top_logprobs", sampling.top_logprobs)
    options = {option: getattr(sampling, field) for option, (field, _) in SAMPLING.items()}
    options |= {
        "num_predict": request.max_tokens,
        "num_ctx": request.local.context_tokens,
        "stop": list(request.stop) or None,
    }
    return {name: value for name, value in options.items() if value is not None}


def _format(wanted: ResponseFormat | None) -> str | dict[str, Any] | None:
    if wanted is None or wanted.kind is Format.TEXT:
        return None
    return wanted.schema if wanted.kind is Format.JSON_SCHEMA and wanted.schema is not None else "json"


def _think(wanted: Thinking | None, losses: _Losses) -> bool | str | None:
    if wanted is None:
        return None
    if not wanted.enabled:
        return False
    losses.note("thinking.budget_tokens", wanted.budget_tokens)
    if wanted.effort is None:
        return True
    losses.note("thinking.effort", wanted.effort not in EFFORTS)
    return EFFORTS.get(wanted.effort, True)


def _prompt(request: Request) -> dict[str, Any]:
    """A raw completion: all the text there is, and no template."""
    prompt = "".join(m.text for m in request.messages)
    images = [
        _image(p, f"messages[{i}]") for i, m in enumerate(request.messages) for p in m.parts if isinstance(p, Image)
    ]
    return {"prompt": prompt, "raw": True, **({"images": images} if images else {})}


def _talk(request: Request, losses: _Losses) -> dict[str, Any]:
    system = "\n\n".join(t.text for t in request.system)
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    talk = paired(request.messages)
    losses.note(LOST, talk.lost)
    names = {p.id: p.name for m in talk.messages for p in m.parts if isinstance(p, ToolCall)}
    for index, message in enumerate(talk.messages):
        losses.note("message.name", message.name)
        messages += _messages(message, index, names, losses)
    chosen = request.tool_choice
    tools = () if chosen is not None and chosen.mode is Choose.NONE else request.tools
    return {"messages": messages, **({"tools": [_tool(t, losses) for t in tools]} if tools else {})}


def _tool(tool: Tool, losses: _Losses) -> dict[str, Any]:
    losses.note("tool.strict", tool.strict)
    described = {"description": tool.description} if tool.description is not None else {}
    return {"type": "function", "function": {"name": tool.name, **described, "parameters": tool.parameters}}


def _messages(message: Message, index: int, names: dict[str, str], losses: _Losses) -> list[dict[str, Any]]:
    """One neutral message as wire messages: each tool result is one of its own, before the rest."""
    place = f"messages[{index}]"
    results = [p for p in message.parts if isinstance(p, ToolResult)]
    out = [_result(r, place, names, losses) for r in results]
    rest = [p for p in message.parts if not isinstance(p, ToolResult)]
    if rest or not results:
        role = Role.USER if message.role is Role.TOOL else message.role
        out.append({"role": role.value, **_content(rest, place, losses)})
    return out


def _result(result: ToolResult, place: str, names: dict[str, str], losses: _Losses) -> dict[str, Any]:
    name = result.name or names.get(result.id)
    named = {"tool_name": name} if name else {}
    return {"role": "tool", **_content(told(result), place, losses), **named, "tool_call_id": result.id}


def _content(parts: Iterable[Part], place: str, losses: _Losses) -> dict[str, Any]:
    """`content`, and `thinking`, `images` and `tool_calls` where there are any."""
    texts: list[str] = []
    thinking: list[str] = []
    images: list[str] = []
    calls: list[dict[str, Any]] = []
    for part in parts:
        match part:
            case Text() | Refusal():
                texts.append(part.text)
            case Reasoning():
                losses.note("messages.reasoning", part.redacted)
                thinking.append(part.text)
            case Image():
                losses.note("image.detail", part.detail not in (None, "auto"))
                images.append(_image(part, place))
            case ToolCall():
                calls.append(past_call(part, len(calls)))
            case File(text=str() as text):
                texts.append(text)
            case File() | Audio():
                raise _unsupported(part, place)
            case ToolResult():  # a message of its own, see `_messages`
                pass
    extras = {"thinking": "".join(thinking), "images": images, "tool_calls": calls}
    return {"content": "".join(texts), **{name: value for name, value in extras.items() if value}}


def _image(image: Image, place: str) -> str:
    """Base64 and nothing else (R28)."""
    if image.data is not None:
        return image.data
    head, _, data = (image.url or "").partition(",")
    if head[:5].lower() == "data:" and head.endswith(";base64") and data:
        return data
    raise invalid("this model takes images as data, and no URL is fetched for it", f"{place}.content")


_UNSUPPORTED: Final[dict[type, str]] = {File: "files", Audio: "audio"}


def _unsupported(part: File | Audio, place: str) -> ApiError:
    return invalid(f"this model takes no {_UNSUPPORTED[type(part)]}", f"{place}.content")
