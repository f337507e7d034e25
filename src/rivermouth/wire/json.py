"""JSON, fast and safe for line-framed streams.  The only module that imports the JSON engine.

Encoded bytes never hold U+0085, U+2028 or U+2029 unescaped: all three are legal in JSON, and clients that split lines
as `str.splitlines` does break on them (F5).  C0 controls are escaped by JSON itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec.json import Decoder as Typed
from msgspec.json import Encoder as _Encoder

from rivermouth.ir.errors import WireError

T = TypeVar("T")

Raw = msgspec.Raw

_encoder: Final = _Encoder()
_encode: Final = _encoder.encode
_any: Final = Typed()
_text: Final = Typed(str)
_fields: Final = Typed(dict[str, msgspec.Raw])
_PLACE: Final = re.compile(r" - at (?:`key` in )?`\$\.?([^`]*)`$")
_MISSING: Final = re.compile(r"^Object missing required field `([^`]*)`")
_LONE_SURROGATE: Final = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})?|\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


def encode(value: Any) -> bytes:
    """One line of compact JSON, with the three line separators escaped.  Half an emoji is encoded as U+FFFD."""
    try:
        return line_safe(_encode(value))
    except UnicodeEncodeError:
        return line_safe(_encode(_whole(value)))


def line_safe(data: bytes) -> bytes:
    """The same JSON without a raw U+0085, U+2028 or U+2029.  They can only stand inside strings, so this is exact."""
    if data.isascii():
        return data
    return (
        data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029").replace(b"\xc2\x85", b"\\u0085")
    )


def decode(data: bytes | memoryview | msgspec.Raw) -> Any:
    """Any JSON value.  Raises `WireError` with the position, not the content."""
    return decode_as(_any, data)


def fields(data: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """The top-level fields of an object, each still as its own bytes.  Raises `WireError`."""
    return decode_as(_fields, data)


def decode_as(decoder: Typed[T], data: bytes | memoryview | msgspec.Raw) -> T:
    """A typed value.  A lone surrogate (half an emoji, as some servers cut them) reads as U+FFFD.

    Raises `WireError` when the bytes are not JSON or not of that shape.
    """
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as error:
        mended = _mend_surrogates(bytes(data))
        if mended is None:
            raise WireError(str(error)) from None
    except UnicodeDecodeError as error:
        raise WireError(f"not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise WireError("JSON is nested too deeply") from None
    try:
        return decoder.decode(mended)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(str(error)) from None


def text(data: bytes) -> str | None:
    """The one JSON string that `data` is; None when it is anything else.  For the hot path: no exception leaves it."""
    try:
        return _text.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        mended = _mend_surrogates(data)
        return text(mended) if mended is not None else None


def object_of(members: Mapping[str, msgspec.Raw]) -> bytes:
    """An object of these members.  The bytes of their values are not touched; names are written as by `encode`."""
    if all(map(str.isascii, members)):
        return _encode(members)
    return b"{" + b",".join([encode(name) + b":" + bytes(value) for name, value in members.items()]) + b"}"


def typed(shape: type[T]) -> Typed[T]:
    """A decoder for `shape`; make it once, at import."""
    return Typed(shape)


def schemas(shapes: list[type], ref: str) -> dict[str, Any]:
    """JSON Schemas of these structs and of those in them, by name.  ref: how one names another, as in "#/{name}"."""
    return msgspec.json.schema_components(shapes, ref_template=ref)[1]


def convert(value: Any, shape: type[T]) -> T:
    """An already decoded value as `shape`.  Raises `WireError`."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        raise WireError(str(error)) from None


class Misfit(NamedTuple):
    """How JSON failed to fit its shape: `words` without the place, and `param`, the path of the field at fault as in
    "messages[2].content" (None: all of it).  `missing`: the field is required and not there."""

    words: str
    param: str | None
    missing: bool


def misfit(error: WireError) -> Misfit:
    """What a `WireError` of `decode_as` or `convert` complains of."""
    words = str(error)
    place = _PLACE.search(words)
    if place is not None:
        words = words[: place.start()]
    missing = _MISSING.match(words)
    path = (place[1].replace("[...]", "") if place is not None else "", missing[1] if missing is not None else "")
    return Misfit(words, ".".join(filter(None, path)) or None, missing is not None)


def raw(value: Any) -> msgspec.Raw:
    """A value as raw JSON, ready to stand among untouched fields."""
    return msgspec.Raw(_encode(value))


def _whole(value: Any) -> Any:
    """The value with lone surrogates replaced in every string.  Only for the rare value that cannot be encoded."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {_whole(k): _whole(v) for k, v in value.items()}
        case list() | tuple():
            return [_whole(v) for v in value]
        case msgspec.Struct():
            return msgspec.structs.replace(value, **{f: _whole(getattr(value, f)) for f in value.__struct_fields__})
        case _:
            return value


def _mend_surrogates(data: bytes) -> bytes | None:
    """The data with lone surrogate escapes replaced, or None if there was none."""
    found = False

    def mend(match: re.Match[bytes]) -> bytes:
        nonlocal found
        text = match.group()
        if len(text) == 6:
            found = True
            return b"\\ufffd"
        return text

    mended = _LONE_SURROGATE.sub(mend, data)
    return mended if found else None
