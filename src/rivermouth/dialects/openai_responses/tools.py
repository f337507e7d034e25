"""Tools, both ways: functions, tools of free form, and those that a client keeps in namespaces.

Other targets know one flat list of functions.  A tool of a namespace goes there as `namespace__name`, one of free form
as a function of one text (`vendors.openai.free_form`); a call comes back under the names that its client gave.
Tools that the vendor runs itself are left out and named: agents send them with every request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from rivermouth.dialects.openai_responses.tables import CHOOSE_IN
from rivermouth.ir.call_ids import fresh
from rivermouth.ir.errors import WireError, invalid
from rivermouth.ir.request import Choose, FreeForm, Inside, Request, Tool, ToolChoice
from rivermouth.vendors.openai import free_form
from rivermouth.vendors.openai.bodies import known, misfit
from rivermouth.wire import json

NAME_CHARS: Final = 64
_DIGEST_CHARS: Final = 8
_BETWEEN: Final = "__"


class _Format(msgspec.Struct, frozen=True):
    type: str | None = None
    syntax: str | None = None
    definition: str | None = None


class ToolShape(msgspec.Struct, frozen=True):
    """What is read of a tool; the members that count depend on `type`."""

    type: str
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    format: _Format | None = None
    tools: list[msgspec.Raw] | None = None


class _Typed(msgspec.Struct, frozen=True):
    type: str
    name: str | None = None


class ChoiceShape(msgspec.Struct, frozen=True):
    type: str
    name: str | None = None
    namespace: str | None = None
    mode: str | None = None
    tools: list[_Typed] | None = None


class Offered(NamedTuple):
    """The tools that any target can be offered, the choice among them, and what was left out, by name."""

    tools: tuple[Tool, ...]
    choice: ToolChoice | None
    left_out: list[str]


class Called(NamedTuple):
    """A tool as its client calls it."""

    name: str
    namespace: str | None = None
    free_form: bool = False


_tool: Final = json.typed(ToolShape)
_typed: Final = json.typed(_Typed)
_OURS: Final = frozenset({"function", "custom"})
_NAMESPACE: Final = "namespace"


def flat_name(namespace: str, name: str) -> str:
    """The one name of a tool in a namespace, within what vendors take; the same for the same two."""
    both = f"{namespace}{_BETWEEN}{name}"
    if len(both) <= NAME_CHARS:
        return both
    digest = hashlib.sha256(both.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{both[: NAME_CHARS - _DIGEST_CHARS - 1]}_{digest}"


def called_as(request: Request | None) -> Mapping[str, Called]:
    """By their one name, the tools whose clients call them otherwise."""
    tools = request.tools if request is not None else ()
    return {
        tool.name: Called(
            tool.inside.name if tool.inside is not None else tool.name,
            tool.inside.namespace if tool.inside is not None else None,
            tool.free_form is not None,
        )
        for tool in tools
        if tool.inside is not None or tool.free_form is not None
    }


def one_name(tools: Iterable[Tool]) -> Mapping[tuple[str, str], str]:
    """The one name of each tool that stands in a namespace, by the two that its client gave."""
    return {(t.inside.namespace, t.inside.name): t.name for t in tools if t.inside is not None}


# -- in ---------------------------------------------------------------------------------------------------------------


def parse_tools(raws: Sequence[msgspec.Raw] | None, choice: str | ChoiceShape | None) -> Offered:
    """Raises `ApiError` naming the field at fault; never for a tool of a type that is not known."""
    left_out: list[str] = []
    tools = tuple(_read(raws or (), left_out))
    tools, chosen = _choose(choice, tools, left_out)
    return Offered(tools, chosen if tools else None, left_out)


def _read(raws: Sequence[msgspec.Raw], left_out: list[str]) -> Iterable[Tool]:
    taken: set[str] = set()
    for i, raw in enumerate(raws):
        kind = _kind(raw, f"tools[{i}]")
        if kind in _OURS:
            tool = _one(raw, f"tools[{i}]", None)
            taken.add(tool.name)
            yield tool
        elif kind == _NAMESPACE:
            yield from _inside(raw, f"tools[{i}]", taken, left_out)
        else:
            left_out.append(f"tools.{kind}")


def _inside(raw: msgspec.Raw, at: str, taken: set[str], left_out: list[str]) -> Iterable[Tool]:
    shape = _shape(raw, at)
    namespace = _name_of(shape.name, at)
    for i, member in enumerate(shape.tools or ()):
        kind = _kind(member, f"{at}.tools[{i}]")
        if kind not in _OURS:
            left_out.append(f"tools.{kind}")
            continue
        tool = _one(member, f"{at}.tools[{i}]", namespace)
        yield msgspec.structs.replace(tool, name=fresh(tool.name, taken))


def _one(raw: msgspec.Raw, at: str, namespace: str | None) -> Tool:
    shape = _shape(raw, at)
    name = _name_of(shape.name, at)
    inside = Inside(namespace, name) if namespace is not None else None
    called = flat_name(namespace, name) if namespace is not None else name
    if shape.type == "custom":
        form = shape.format or _Format()
        return free_form.as_function(called, FreeForm(shape.description, form.syntax, form.definition), inside)
    if shape.parameters is None:
        return Tool(called, shape.description, strict=shape.strict, inside=inside)
    return Tool(called, shape.description, shape.parameters, shape.strict, inside=inside)


def _kind(raw: msgspec.Raw, at: str) -> str:
    try:
        return json.decode_as(_typed, raw).type
    except WireError as error:
        raise misfit(error, at) from None


def _shape(raw: msgspec.Raw, at: str) -> ToolShape:
    try:
        return json.decode_as(_tool, raw)
    except WireError as error:
        raise misfit(error, at) from None


def _name_of(name: str | None, at: str) -> str:
    if not name:
        raise invalid("the tool's name is missing", f"{at}.name", "missing_required_parameter")
    return name


def _choose(
    choice: str | ChoiceShape | None, tools: tuple[Tool, ...], left_out: list[str]
) -> tuple[tuple[Tool, ...], ToolChoice | None]:
    if choice is None:
        return tools, None
    if isinstance(choice, str):
        return tools, ToolChoice(known(choice, CHOOSE_IN, "tool_choice"))
    if choice.type == "allowed_tools":
        mode = known(choice.mode or "auto", CHOOSE_IN, "tool_choice.mode")
        return tuple(_allowed(tools, choice.tools or ())), ToolChoice(mode)
    if choice.type not in _OURS:
        left_out.append("tool_choice")
        return tools, None
    name = _name_of(choice.name, "tool_choice")
    found = [t.name for t in tools if _answers_to(t, name, choice.namespace)]
    if not found:
        raise invalid("the tool that was chosen is not among the tools", "tool_choice", "invalid_value")
    return tools, ToolChoice(Choose.NAMED, found[0])


def _answers_to(tool: Tool, name: str, namespace: str | None) -> bool:
    if tool.inside is None:
        return namespace is None and tool.name == name
    return tool.inside.name == name and namespace in (None, tool.inside.namespace)


def _allowed(tools: Iterable[Tool], entries: Iterable[_Typed]) -> Iterable[Tool]:
    names = {e.name for e in entries if e.type in _OURS}
    spaces = {e.name for e in entries if e.type == _NAMESPACE}
    return [t for t in tools if _is_allowed(t, names, spaces)]


def _is_allowed(tool: Tool, names: set[str | None], spaces: set[str | None]) -> bool:
    if tool.inside is None:
        return tool.name in names
    return tool.inside.name in names or tool.inside.namespace in spaces


# -- out --------------------------------------------------------------------------------------------------------------


def write_tools(request: Request) -> dict[str, Any]:
    """Without tools there is neither a choice nor `parallel_tool_calls`: upstreams refuse both."""
    if not request.tools:
        return {}
    fields: dict[str, Any] = {"tools": [_write(tool) for tool in request.tools]}
    if request.tool_choice is not None:
        fields["tool_choice"] = _write_choice(request.tool_choice, request.tools)
    if request.parallel_tools is not None:
        fields["parallel_tool_calls"] = request.parallel_tools
    return fields


def _write(tool: Tool) -> dict[str, Any]:
    form = tool.free_form
    if form is None:
        said = {"description": tool.description, "strict": tool.strict}
        wire: dict[str, Any] = {"type": "function", "name": tool.name, "parameters": tool.parameters}
        return wire | {name: value for name, value in said.items() if value is not None}
    wire = {"type": "custom", "name": tool.name}
    if form.description is not None:
        wire["description"] = form.description
    if form.definition is not None:
        wire["format"] = {"type": "grammar", "syntax": form.syntax or "lark", "definition": form.definition}
    return wire


def _write_choice(choice: ToolChoice, tools: tuple[Tool, ...]) -> Any:
    if choice.mode is not Choose.NAMED:
        return choice.mode.value
    custom = any(t.name == choice.name and t.free_form is not None for t in tools)
    return {"type": "custom" if custom else "function", "name": choice.name}
