"""The waist of the hourglass: what happens in one generation, as a stream of small values.

Parts (text, reasoning, a tool call ...) are opened, filled and closed, and carry a number that is unique in the
stream and dense in the order of opening; a part belongs to one choice.  Which order is legal is `grammar`'s business.
"""

from __future__ import annotations

from enum import StrEnum
from operator import attrgetter
from typing import Final

import msgspec

from rivermouth.ir.errors import ApiError


class PartKind(StrEnum):
    TEXT = "text"
    REASONING = "reasoning"
    TOOL = "tool_call"
    REFUSAL = "refusal"
    IMAGE = "image"
    FILE = "file"


class Reason(StrEnum):
    """Why the model stopped by itself.  Derived from what was emitted where a vendor's word contradicts it (F24)."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"


class Start(msgspec.Struct, frozen=True, gc=False):
    """The upstream has begun.  `id`, `model` and `created` (Unix seconds) are the upstream's own, if it said them."""

    id: str | None = None
    model: str | None = None
    created: int | None = None


class PartStart(msgspec.Struct, frozen=True, gc=False):
    """Opens part number `part`.  `id` and `name` are set exactly for a tool call; `redacted` marks hidden reasoning."""

    part: int
    kind: PartKind
    choice: int = 0
    id: str | None = None
    name: str | None = None
    redacted: bool = False


class TextDelta(msgspec.Struct, frozen=True, gc=False):
    """Text of a TEXT or REFUSAL part; never empty."""

    part: int
    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, gc=False):
    part: int
    text: str


class Signature(msgspec.Struct, frozen=True, gc=False):
    """The signature (or the hidden data) of a REASONING part, whole; at most one for each part."""

    part: int
    signature: str


class ArgsDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of the JSON text of a tool call's arguments; the pieces are only JSON when joined."""

    part: int
    json: str


class MediaDelta(msgspec.Struct, frozen=True, gc=False):
    """The whole content of an IMAGE or FILE part: base64 `data` or a `url`."""

    part: int
    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class PartEnd(msgspec.Struct, frozen=True, gc=False):
    part: int


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens so far; a later one replaces an earlier one, field by field where it is not None.

    input_tokens: the whole prompt, cached and cache-written tokens included (F28).
    output_tokens: all that was produced, reasoning included.  None is "not said", never 0 (F29).
    estimated: counted here and not by the model.  The `_ns` durations are the engine's own.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    estimated: bool = False
    load_ns: int | None = None
    prompt_ns: int | None = None
    output_ns: int | None = None


class Warn(msgspec.Struct, frozen=True, gc=False):
    """Something was ignored or changed; `field` names it.  The answer is still right."""

    message: str
    field: str | None = None


class Unknown(msgspec.Struct, frozen=True, gc=False):
    """A frame of the upstream that we do not model; only a same-dialect client sees it."""

    name: str
    data: bytes


class Finish(msgspec.Struct, frozen=True):
    """The one good end.  `reason` is choice 0's; `reasons` has one for each choice when there are several."""

    reason: Reason
    stop_sequence: str | None = None
    reasons: tuple[Reason, ...] = ()


class Error(msgspec.Struct, frozen=True):
    """The one bad end.  Parts may be open; each encoder closes its own."""

    error: ApiError


Event = (
    Start
    | PartStart
    | TextDelta
    | ReasoningDelta
    | Signature
    | ArgsDelta
    | MediaDelta
    | PartEnd
    | Usage
    | Warn
    | Unknown
    | Finish
    | Error
)


COUNT_CAP: Final = 2**53
_TOKENS: Final = tuple(f for f in Usage.__struct_fields__ if f.endswith("_tokens"))
_counts: Final = attrgetter(*_TOKENS)
_PARTS: Final = tuple(
    (_TOKENS.index(part), _TOKENS.index(whole))
    for part, whole in (
        ("cached_tokens", "input_tokens"),
        ("cache_write_tokens", "input_tokens"),
        ("reasoning_tokens", "output_tokens"),
    )
)


def believable(usage: Usage) -> Usage:
    """The usage without what cannot be: a count below 0 or above 2**53 was not said; no part is above its whole."""
    said = list(_counts(usage))
    counts = [v if v is None or 0 <= v <= COUNT_CAP else None for v in said]
    for part, whole in _PARTS:
        total, share = counts[whole], counts[part]
        if share is not None and total is not None and share > total:
            counts[part] = total
    if counts == said:
        return usage
    return msgspec.structs.replace(usage, **dict(zip(_TOKENS, counts, strict=True)))


def merge_usage(old: Usage | None, new: Usage) -> Usage:
    """`new` over `old`, field by field; what `new` does not say stays, and with it the mark of an estimate."""
    new = believable(new)
    if old is None:
        return new
    said = {f: v for f in new.__struct_fields__ if (v := getattr(new, f)) is not None and f != "estimated"}
    kept = any(getattr(old, f) is not None and f not in said for f in _TOKENS)
    return msgspec.structs.replace(old, estimated=new.estimated or (old.estimated and kept), **said)
