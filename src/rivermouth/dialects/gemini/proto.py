"""proto3 JSON, as lenient as the vendor's own servers read it.

Names come in camelCase or snake_case, numbers as numbers or as text, a single value where a list belongs, and base64 in
either alphabet.  What is below `OPAQUE` names is the client's own JSON and stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Any, Final, TypeVar

import msgspec

from rivermouth.ir import names
from rivermouth.ir.errors import ApiError, WireError, invalid
from rivermouth.wire import json

T = TypeVar("T")

OPAQUE: Final = frozenset(
    {
        "args",
        "labels",
        "parameters",
        "parametersJsonSchema",
        "response",
        "responseJsonSchema",
        "responseSchema",
    }
)
_REPEATED: Final = frozenset(
    {"allowedFunctionNames", "contents", "functionDeclarations", "parts", "requests", "stopSequences", "tools"}
)
_STEP: Final = re.compile(r"(?<=[a-z0-9])_([a-z0-9])")
_URL_SAFE: Final = str.maketrans("-_", "+/")


def read(body: bytes) -> tuple[dict[str, json.Raw], dict[str, Any]]:
    """The fields of a body as they came, and all of it in camelCase.  Raises `ApiError` (invalid_request)."""
    try:
        fields = json.fields(body)
        value = json.decode(body)
    except WireError as error:
        raise invalid(f"the body is not a JSON object: {error}") from None
    try:
        return fields, {camel(name): _camel_value(camel(name), inner) for name, inner in value.items()}
    except RecursionError:
        raise invalid("JSON is nested too deeply") from None


def unread(fields: Mapping[str, json.Raw], read: Container[str]) -> list[str]:
    """The names of a body, as the client spells them, that nobody reads."""
    return names.unread({name: raw for name, raw in fields.items() if camel(name) not in read}, ())


def asks(value: Any) -> bool:
    """True for a value that asks for something: null and false do not."""
    return value is not None and value is not False


def camel(name: str) -> str:
    """ "system_instruction" -> "systemInstruction"; any other spelling stays."""
    return _STEP.sub(lambda step: step[1].upper(), name) if "_" in name else name


def lenient(value: Any, shape: type[T], where: str = "") -> T:
    """The value as `shape`; numbers may be text.  Raises `ApiError` naming the field below `where`."""
    try:
        return msgspec.convert(value, shape, strict=False)
    except (msgspec.ValidationError, OverflowError) as error:
        raise field_error(str(error), where) from None


def field_error(text: str, where: str = "") -> ApiError:
    """A JSON shape error as the client's fault, in this protocol's spelling of places."""
    fault = json.misfit(WireError(text))
    words = "this field is required" if fault.missing else fault.words
    return invalid(words, join(where, fault.param or "") or None)


def join(path: str, step: str) -> str:
    """One step further: "contents[0]" and "parts[1]" -> "contents[0].parts[1]"."""
    if not path or not step:
        return path or step
    return f"{path}{step}" if step.startswith("[") else f"{path}.{step}"


def standard_base64(data: str) -> str:
    """The same bytes in the standard alphabet, padded."""
    if "-" in data or "_" in data:
        data = data.translate(_URL_SAFE)
    return data + "=" * (-len(data) % 4)


def _camel_value(name: str, value: Any) -> Any:
    if name in OPAQUE:
        return value
    if name in _REPEATED and not isinstance(value, list) and value is not None:
        value = [value]
    match value:
        case dict():
            return {camel(n): _camel_value(camel(n), inner) for n, inner in value.items()}
        case list():
            return [_camel_value("", inner) for inner in value]
        case _:
            return value
