"""Editing one top-level member of a JSON object and leaving every other byte as it came.

A cut is only used after reading the result back and finding exactly the wanted members; where no cut is exact (odd
white space, the same bytes twice) the object is written anew from its members, each of which keeps its own bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rivermouth.ir.errors import WireError
from rivermouth.wire import json

Members = dict[str, json.Raw]
_raw_items: Final = json.typed(list[json.Raw])


def members(data: bytes) -> Members:
    """The top-level members, each as its own bytes.  Raises `WireError`."""
    return json.fields(data)


def write(fields: Mapping[str, json.Raw]) -> bytes:
    """An object of these members; their bytes are not touched."""
    return json.object_of(fields)


def replace_member(data: bytes, name: str, value: bytes) -> bytes:
    """The object with the member's value replaced; as it was if it has no such member."""
    fields = members(data)
    return _replaced(data, fields, name, value) if name in fields else data


def _replaced(data: bytes, fields: Members, name: str, value: bytes) -> bytes:
    wanted = {**fields, name: json.Raw(value)}
    old = bytes(fields[name])
    for head in _heads(name):
        if data.count(head + old) == 1:
            edited = data.replace(head + old, head + value)
            if _same(edited, wanted):
                return edited
    return write(wanted)


def drop_member(data: bytes, name: str) -> bytes:
    """The object without the member."""
    fields = members(data)
    if name not in fields:
        return data
    old = bytes(fields.pop(name))
    for head in _heads(name):
        for before, after in ((b",", b""), (b", ", b""), (b"", b","), (b"", b", ")):
            cut = before + head + old + after
            if data.count(cut) == 1:
                edited = data.replace(cut, b"")
                if _same(edited, fields):
                    return edited
    return write(fields)


def set_member(data: bytes, name: str, value: bytes) -> bytes:
    """The object with the member replaced, or added at its end."""
    fields = members(data)
    if name in fields:
        return _replaced(data, fields, name, value)
    comma = b"," if fields else b""
    return data.rstrip()[:-1].rstrip() + comma + json.encode(name) + b":" + value + b"}"


def unended(chunk: bytes) -> bytes:
    """The chunk without the end that it tells of: each choice's `finish_reason` is null, the rest as it came."""
    choices = json.decode_as(_raw_items, members(chunk)["choices"])
    still_open = [replace_member(bytes(choice), "finish_reason", b"null") for choice in choices]
    return set_member(chunk, "choices", b"[" + b",".join(still_open) + b"]")


def _heads(name: str) -> tuple[bytes, bytes]:
    key = json.encode(name)
    return key + b":", key + b": "


def _same(data: bytes, wanted: Members) -> bool:
    try:
        return members(data) == wanted
    except WireError:
        return False
