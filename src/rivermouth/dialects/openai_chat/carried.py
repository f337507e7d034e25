"""A client's own body, for an upstream of this dialect: as it came, but for signatures that only travelled with it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.openai_chat.opaque import own_detail
from rivermouth.ir.opaque import holds_sealed, opened, sealed
from rivermouth.ir.request import Original, Reasoning
from rivermouth.vendors.openai.splice import write
from rivermouth.wire import json

_MESSAGES: Final = "messages"
_DETAILS: Final = "reasoning_details"
_messages: Final = json.typed(list[json.Raw])


def without_carried(original: Original) -> Original:
    """The body in which no envelope is left: what this wire made is opened, what others made is taken out."""
    messages = original.fields.get(_MESSAGES)
    if messages is None or not holds_sealed(bytes(messages)):
        return original
    kept = json.encode([_message(message) for message in json.decode_as(_messages, messages)])
    return msgspec.structs.replace(original, fields={**original.fields, _MESSAGES: json.Raw(kept)})


def _message(message: json.Raw) -> json.Raw:
    fields = json.fields(message)
    if not holds_sealed(bytes(fields.get(_DETAILS, b""))):
        return message
    details = [d for d in map(_own, json.decode(fields.pop(_DETAILS))) if d is not None]
    if details:
        fields[_DETAILS] = json.raw(details)
    return json.Raw(write(fields))


def _own(detail: Any) -> Any:
    """A detail of a client's as an upstream may have it; None for one that it may not."""
    member = next((m for m in ("data", "signature") if isinstance(detail, dict) and detail.get(m)), None)
    if member is None or not sealed(str(detail[member])):
        return detail
    found = opened(str(detail[member]))
    part = Reasoning("", found.signature if found is not None else None, redacted=member == "data")
    own = own_detail(part)
    if own is None:
        return None
    words = {"text": detail["text"]} if detail.get("text") else {}
    return {**{k: v for k, v in own.items() if k != "text"}, **words, "index": detail.get("index", 0)}
