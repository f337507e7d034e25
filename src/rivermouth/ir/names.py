"""What of a client's own words may become a name here: of a model, or of something that was lost on the way.

Names end up in headers, metrics and records, so they are short and printable, and there are never many of them.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import Final

import msgspec

from rivermouth.ir.errors import invalid

MODEL_CHARS: Final = 256
LOSS_NAMES: Final = 32
OTHERS: Final = "other_fields"
"""The one name of all losses whose own names are too odd, too long or too many."""

_QUOTED_CHARS: Final = 40
CONTROLS: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
"""What no name and no line may hold, as ranges of a pattern: controls, breaks of a line, and what turns its order."""
_UNPRINTABLE: Final = re.compile(rf"[{CONTROLS}\ud800-\udfff]")
_LOSS: Final = re.compile(r"[A-Za-z0-9_.\-\[\]]{1,64}")
_ABSENT: Final = (b"null", b"false")


def model_name(*spellings: str | None, param: str = "model") -> str:
    """The first of the spellings that is given.

    Raises `ApiError` (invalid_request, `param`) when there is none, and for a name that is longer than 256 characters
    or holds a control character.
    """
    name = next(filter(None, spellings), None)
    if name is None:
        raise invalid(f"{param} is required", param, "missing_required_parameter")
    if len(name) > MODEL_CHARS:
        raise invalid(f"{param} is longer than {MODEL_CHARS} characters", param, "invalid_value")
    if _UNPRINTABLE.search(name) is not None:
        raise invalid(f"{param} holds a control character", param, "invalid_value")
    return name


def unread(fields: Mapping[str, msgspec.Raw], read: Container[str]) -> list[str]:
    """The fields of a body that nobody reads; null and false ask for nothing, so they are none."""
    return [name for name, raw in fields.items() if name not in read and bytes(raw) not in _ABSENT]


def loss_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names, each once, fit to be shown: 32 of at most 64 plain characters, and `OTHERS` for all the rest."""
    kept: dict[str, None] = {}
    rest = False
    for name in names:
        if name in kept:
            continue
        if len(kept) == LOSS_NAMES or _LOSS.fullmatch(name) is None:
            rest = True
        else:
            kept[name] = None
    return (*kept, OTHERS) if rest and OTHERS not in kept else tuple(kept)


def quoted(word: str) -> str:
    """A client's word as a message may repeat it: printable and short."""
    return repr(word if len(word) <= _QUOTED_CHARS else word[:_QUOTED_CHARS] + "…")
