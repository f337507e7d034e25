"""Answers in JSON: `response_format`, whose schema has another name in each of the two protocols."""

from __future__ import annotations

from typing import Any, Final

from rivermouth.ir.errors import invalid
from rivermouth.ir.request import Format, ResponseFormat

FORMATS: Final = {"text": Format.TEXT, "json_object": Format.JSON}


def read_format(word: str, schema: dict[str, Any] | None) -> ResponseFormat:
    """Raises `ApiError` (invalid_request) for a type that there is not."""
    kind = FORMATS.get(word)
    if kind is None:
        raise invalid(f"must be one of {', '.join(FORMATS)}", "response_format.type")
    if kind is Format.JSON and schema is not None:
        return ResponseFormat(Format.JSON_SCHEMA, schema)
    return ResponseFormat(kind)


def write_format(wanted: ResponseFormat | None, member: str) -> dict[str, Any]:
    """The member of the body; `member` is what the protocol calls the schema.  None for text, which is the default."""
    if wanted is None or wanted.kind is Format.TEXT:
        return {}
    schema = {member: wanted.schema} if wanted.kind is Format.JSON_SCHEMA and wanted.schema is not None else {}
    return {"response_format": {"type": "json_object", **schema}}
