"""Schemas of tools and answers: JSON Schema among ourselves, and on this wire either that or the vendor's older form.

The older form is a subset of OpenAPI's with types in upper case (OBJECT, STRING ...) and `nullable`; every model and
every server of this dialect knows it, so a schema that fits it is sent in it, and any other as the JSON Schema it is.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from rivermouth.dialects.gemini.proto import camel
from rivermouth.ir.errors import invalid

Schema = dict[str, Any]

_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_UNSAID: Final = "type_unspecified"
_COUNTS: Final = frozenset({"maxItems", "minItems", "maxLength", "minLength", "maxProperties", "minProperties"})
_RENAMED: Final = {"defs": "$defs", "ref": "$ref"}
_VENDORS: Final = frozenset({"propertyOrdering", "nullable", "example"})  # no keywords of JSON Schema

_FITTING: Final = _COUNTS | {
    "anyOf",
    "description",
    "enum",
    "format",
    "items",
    "maximum",
    "minimum",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
}
_FORMATS: Final = frozenset({"float", "double", "int32", "int64", "enum", "date-time"})
_DEPTH_CAP: Final = 64


class Members(NamedTuple):
    """The two places a schema may have: its older form, or JSON Schema."""

    older: str
    json_schema: str


PARAMETERS: Final = Members("parameters", "parametersJsonSchema")
RESPONSE: Final = Members("responseSchema", "responseJsonSchema")


def to_json_schema(schema: Any) -> Any:
    """The older form as JSON Schema.  What is neither is passed on as it is: whoever uses it says so.

    Raises `ApiError` (invalid_request) when it is nested too deeply to be read.
    """
    try:
        return _neutral(schema)
    except RecursionError:
        raise invalid("a schema is nested too deeply") from None


def _neutral(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    out: Schema = {}
    for name, value in schema.items():
        key = camel(name)
        if key not in _VENDORS:
            out[_RENAMED.get(key, key)] = _member(key, value)
    if isinstance(out.get("type"), str) and out["type"].lower() == _UNSAID:
        del out["type"]
    if schema.get("nullable") is True and isinstance(out.get("type"), str):
        out["type"] = [out["type"], "null"]
    return out


def to_wire(schema: Schema, members: Members) -> Schema:
    """The one member that holds the schema."""
    if _fits(schema, 0):
        return {members.older: _upper(schema)}
    return {members.json_schema: schema}


def _member(key: str, value: Any) -> Any:
    match key, value:
        case "type", str() if value.lower() in _TYPES or value.lower() == _UNSAID:
            return value.lower()
        case "properties" | "defs", dict():
            return {name: _neutral(inner) for name, inner in value.items()}
        case "anyOf", list():
            return [_neutral(inner) for inner in value]
        case "items" | "additionalProperties", dict():
            return _neutral(value)
        case _, str() if key in _COUNTS and value.isascii() and value.isdigit() and len(value) < 19:
            return int(value)
        case _:
            return value


def _fits(schema: Any, depth: int) -> bool:
    """True when the older form says all of it, in a way that the vendor's servers accept."""
    if not isinstance(schema, dict) or depth > _DEPTH_CAP or not schema.keys() <= _FITTING:
        return False
    kind = schema.get("type")
    inner = depth + 1
    if "anyOf" in schema:
        options = schema["anyOf"]
        return schema.keys() == {"anyOf"} and _is_list(options) and all(_fits(o, inner) for o in options)
    if not isinstance(kind, str) or kind not in _TYPES or kind == "null":
        return False
    if "format" in schema and str(schema["format"]) not in _FORMATS:
        return False
    if "enum" in schema and not (kind == "string" and _is_list(schema["enum"]) and all(map(_is_name, schema["enum"]))):
        return False
    if kind == "array" and not _fits(schema.get("items"), inner):
        return False
    if kind != "array" and "items" in schema:
        return False
    properties = schema.get("properties")
    if kind == "object" or properties is not None:
        return isinstance(properties, dict) and bool(properties) and all(_fits(p, inner) for p in properties.values())
    return "required" not in schema


def _upper(schema: Schema) -> Schema:
    out = dict(schema)
    if "type" in out:
        out["type"] = out["type"].upper()
    if "properties" in out:
        out["properties"] = {name: _upper(inner) for name, inner in out["properties"].items()}
    if "items" in out:
        out["items"] = _upper(out["items"])
    if "anyOf" in out:
        out["anyOf"] = [_upper(option) for option in out["anyOf"]]
    return out


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)
