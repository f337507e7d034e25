"""Tool calls, results and definitions: objects on this wire where the neutral model has JSON text and JSON schemas.

Calls have no ids here.  We add an `id` beside name and parameters: clients and servers that do not know it leave it
alone, those that keep what they were given (as the SDK does) hand it back, and then nothing has to be guessed.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from rivermouth.ir.errors import WireError
from rivermouth.ir.request import Tool, ToolCall
from rivermouth.wire import arguments, json

_OUTPUT: Final = "output"

# JSON schema type -> the Python type that names it here.
PYTHON_TYPES: Final[dict[str, str]] = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
}
_SCHEMA_TYPES: Final[dict[str, str]] = {
    **{name: schema for schema, name in PYTHON_TYPES.items()},
    **{name: name for name in PYTHON_TYPES},
    "text": "string",
    "double": "number",
    "tuple": "array",
    "set": "array",
    "sequence": "array",
    "mapping": "object",
}
_GENERIC: Final = re.compile(r"\s*(?:typing\.)?(\w+)\s*(?:\[(.*)\])?\s*", re.S)
# Members of a schema that say no more than the definitions do.
_SILENT: Final[dict[str, Any]] = {"additionalProperties": False, "required": []}
_ABOUT: Final = frozenset({"$schema", "title"})


class Call(msgspec.Struct):
    name: str
    parameters: msgspec.Raw = msgspec.Raw(b"{}")
    id: str | None = None


class Definition(msgspec.Struct):
    type: str | None = None
    description: str | None = None
    required: bool | None = None


class ToolShape(msgspec.Struct):
    """`parameters` is the whole schema where the definitions cannot say it; see `write_tool`."""

    name: str
    description: str | None = None
    parameter_definitions: dict[str, Definition] | None = None
    parameters: dict[str, Any] | None = None


def arguments_text(raw: msgspec.Raw) -> str:
    """The object as its JSON text; a string's content where a server sends text; "" for null.  Raises `WireError`."""
    try:
        text = bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise WireError(f"not UTF-8 at byte {error.start} of a tool call") from None
    if text[:1] == '"':
        return str(json.decode(raw))
    return "" if text == "null" else text


def write_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "parameters": msgspec.Raw(arguments.to_object(call.arguments))}


def write_outputs(text: str) -> list[Any]:
    """A result's text as objects: JSON objects as they are, anything else under "output"."""
    data = text.strip().encode("utf-8", "replace")
    try:
        if data[:1] == b"{" and not json.fields(data).keys() <= {_OUTPUT}:
            return [msgspec.Raw(json.encode(json.decode(data)))]
    except WireError:
        pass
    return [{_OUTPUT: text}]


def read_outputs(outputs: list[msgspec.Raw]) -> str:
    """The inverse: one "output" as its text, one object as JSON, several as a list."""
    if not outputs:
        return ""
    if len(outputs) > 1:
        return json.encode(outputs).decode()
    value = json.decode(outputs[0])
    if isinstance(value, dict) and value.keys() == {_OUTPUT} and isinstance(value[_OUTPUT], str):
        return str(value[_OUTPUT])
    return value if isinstance(value, str) else bytes(outputs[0]).decode()


def write_tool(tool: Tool, losses: set[str]) -> dict[str, Any]:
    """The tool with a definition for each parameter.  What these cannot say (nesting, choices ...) is a loss, and goes
    beside them as the schema itself, for a server that reads it."""
    if tool.strict is not None:
        losses.add("tool.strict")
    definitions = _definitions(tool.parameters)
    wire = {"name": tool.name, "description": tool.description or "", "parameter_definitions": definitions}
    told = _schema(json.convert(definitions, dict[str, Definition]))
    if told == tool.parameters:
        return wire
    if told != _plain(tool.parameters):
        losses.add("tool.parameters")
    return {**wire, "parameters": tool.parameters}


def read_tool(shape: ToolShape) -> Tool:
    schema = shape.parameters if shape.parameters is not None else _schema(shape.parameter_definitions or {})
    return Tool(shape.name, shape.description or None, schema)


def _definitions(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    required = schema.get("required")
    wanted = required if isinstance(required, list) else []
    if not isinstance(properties, dict):
        return {}
    return {name: _definition(value, needed=name in wanted) for name, value in properties.items()}


def _definition(schema: Any, *, needed: bool) -> dict[str, Any]:
    said = schema if isinstance(schema, dict) else {}
    about = [said["description"]] if isinstance(said.get("description"), str) else []
    choices = said.get("enum")
    if isinstance(choices, list):
        about.append(f"One of: {', '.join(json.encode(choice).decode() for choice in choices)}")
    described = {"description": " ".join(about)} if about else {}
    return {**described, "type": _python_type(said), "required": needed}


def _python_type(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((k for k in kind if k != "null"), None)
    name = PYTHON_TYPES.get(kind, "str") if isinstance(kind, str) else "str"
    items = schema.get("items")
    return f"list[{_python_type(items)}]" if name == "list" and isinstance(items, dict) else name


def _schema(definitions: dict[str, Definition]) -> dict[str, Any]:
    properties = {}
    for name, definition in definitions.items():
        described = {"description": definition.description} if definition.description else {}
        properties[name] = {**_json_type(definition.type or "str"), **described}
    required = [name for name, definition in definitions.items() if definition.required]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _json_type(python: str, depth: int = 8) -> dict[str, Any]:
    found = _GENERIC.fullmatch(python)
    name, inner = (found[1].lower(), found[2]) if found is not None else ("", None)
    if name == "optional" and inner and depth:
        return _json_type(inner, depth - 1)
    kind = _SCHEMA_TYPES.get(name)
    if kind is None:
        return {}
    if kind == "array" and inner and depth:
        return {"type": kind, "items": _json_type(inner, depth - 1)}
    return {"type": kind}


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without members that say nothing."""
    return {name: value for name, value in schema.items() if name not in _ABOUT and _SILENT.get(name, _ABOUT) != value}
