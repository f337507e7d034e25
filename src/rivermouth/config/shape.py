"""Does a parsed TOML document have the shape of a schema?  Finds every fault, not only the first.

The walk follows the struct types, so the schema stays the one list of keys; each leaf is judged by msgspec itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from rivermouth.config.problems import KeyPath, did_you_mean
from rivermouth.config.values import Duration
from rivermouth.secrets import Secret

FROM_FILE: Final = "file:"
"""What a secret that stands in a file begins with, here and in its label."""
SECRET_CAP_BYTES: Final = 64 * 1024

_TOML_NAMES: Final = {
    "object": "table",
    "array": "array",
    "int": "integer",
    "float": "number",
    "str": "string",
    "bool": "boolean",
}
_MSGSPEC_NAME: Final = re.compile(r"`(\w+)(?: \| null)?`")


class Fault(NamedTuple):
    """What is wrong at one key path."""

    path: KeyPath
    message: str


Hook = Callable[[type, Any], Any]


def secrets_from(environ: Mapping[str, str], folder: Path = Path()) -> Hook:
    """A msgspec `dec_hook` that makes `Secret` (resolving "env:NAME", and "file:PATH" in `folder`) and `Duration`
    values.
    """

    def hook(wanted: type, value: Any) -> Any:
        if wanted is Duration:
            return Duration.parse(value)
        if wanted is Secret:
            return _secret(value, environ, folder)
        raise NotImplementedError(wanted)

    return hook


def _secret(value: Any, environ: Mapping[str, str], folder: Path) -> Secret:
    if not isinstance(value, str):
        raise ValueError("expected a string")
    if value.startswith(FROM_FILE):
        return _secret_of(folder / Path(value.removeprefix(FROM_FILE)).expanduser())
    if not value.startswith("env:"):
        if not value:
            raise ValueError("is empty")
        return Secret(value)
    name = value.removeprefix("env:")
    found = environ.get(name, "")
    if not found:
        raise ValueError(f"the environment variable {name} is not set")
    return Secret(found, label=name)


def _secret_of(file: Path) -> Secret:
    """What a file holds, without the end of its line."""
    try:
        with file.open("rb") as opened:
            found = opened.read(SECRET_CAP_BYTES + 1).decode().rstrip("\r\n")
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not UTF-8") from None
    if not found or len(found) > SECRET_CAP_BYTES or "\n" in found:
        raise ValueError(f"{file} does not hold one line with a secret")
    return Secret(found, label=f"{FROM_FILE}{file}")


def faults(tree: Mapping[str, Any], shape: type[msgspec.Struct], hook: Hook) -> list[Fault]:
    """Everything in `tree` that keeps it from being a `shape`."""
    return list(_table(tree, shape, (), hook))


def _table(tree: Any, shape: type[msgspec.Struct], path: KeyPath, hook: Hook) -> Iterator[Fault]:
    if not isinstance(tree, Mapping):
        yield Fault(path, f"expected a table, got {_toml_name(tree)}")
        return
    fields = {f.encode_name: f for f in msgspec.structs.fields(shape)}
    for key, value in tree.items():
        here = (*path, key)
        if key in fields:
            yield from _value(value, fields[key].type, here, hook)
        else:
            yield Fault(here, f"unknown key{did_you_mean(key, fields)}")
    for name, field in fields.items():
        if field.required and name not in tree:
            yield Fault(path, f"the key {name} is missing")


def _value(value: Any, wanted: Any, path: KeyPath, hook: Hook) -> Iterator[Fault]:
    inner = _plain(wanted)
    origin = get_origin(inner)
    if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
        yield from _table(value, inner, path, hook)
    elif origin is dict and isinstance(value, dict):
        for key, item in value.items():
            yield from _value(item, get_args(inner)[1], (*path, key), hook)
    elif origin is tuple and isinstance(value, list):
        below = [f for i, item in enumerate(value) for f in _value(item, get_args(inner)[0], (*path, i), hook)]
        yield from below or _leaf(value, wanted, path, hook)
    elif origin is Literal and value not in get_args(inner):
        words = ", ".join(f'"{w}"' for w in get_args(inner))
        yield Fault(path, f"expected one of {words}")
    else:
        yield from _leaf(value, wanted, path, hook)


def _leaf(value: Any, wanted: Any, path: KeyPath, hook: Hook) -> Iterator[Fault]:
    try:
        msgspec.convert(value, wanted, dec_hook=hook)
    except msgspec.ValidationError as error:
        message = str(error).partition(" - at `")[0]
        message = _MSGSPEC_NAME.sub(lambda m: _TOML_NAMES.get(m[1], m[1]), message)
        sentence = _sentence(wanted) if " matching regex " in message else None
        yield Fault(path, sentence or message[0].lower() + message[1:])


def _sentence(wanted: Any) -> str | None:
    """What is said of a text that does not keep the pattern of this type (`schema.shaped`)."""
    constraints = [c for c in getattr(wanted, "__metadata__", ()) if isinstance(c, msgspec.Meta)]
    said = (c.description for c in constraints if c.pattern is not None)
    return next(said, None) or next(filter(None, map(_sentence, get_args(wanted))), None)


def _plain(wanted: Any) -> Any:
    """The type without its constraints and without None, which TOML cannot say."""
    while True:
        origin = get_origin(wanted)
        if origin is Annotated:
            wanted = get_args(wanted)[0]
        elif origin in (Union, UnionType):
            some = [a for a in get_args(wanted) if a is not NoneType]
            if len(some) != 1:
                return wanted
            wanted = some[0]
        else:
            return wanted


def _toml_name(value: Any) -> str:
    name = type(value).__name__
    return {"dict": "table", "list": "array"}.get(name) or _TOML_NAMES.get(name, name)
