"""Frames that differ from an earlier one in one text, and behind the candidates: read without parsing the rest again.

Servers repeat everything around the text in each frame of a stream, while token counts behind it grow.  A frame is cut
once into what stands before the text and what stands between the text and the end of the candidates; a later frame that
begins with the one, goes on with a JSON string and then with the other has the same candidates but for that string,
because a string is a whole token: what the parser makes of the bytes around it cannot depend on what is in it.
"""

from __future__ import annotations

import re
from typing import Final

from rivermouth.ir.errors import WireError
from rivermouth.wire import json

# How often a stream is looked at again: one whose every frame differs is read whole each time.
LEARN_CAP: Final = 8
_VALUE: Final = re.compile(rb'"text"\s*:\s*("(?:[^"\\]|\\.)+")')
_CANDIDATES: Final = "candidates"


def cut(data: bytes) -> tuple[bytes, bytes] | None:
    """What stands before and after the text, up to the end of the candidates; None where there is not just one text.

    The second begins with the text's closing quote, so that a search for it cannot stop inside the text unnoticed.
    """
    try:
        candidates = bytes(json.fields(data)[_CANDIDATES])
    except (WireError, KeyError):
        return None
    if data.count(candidates) != 1:
        return None
    begin = data.index(candidates)
    end = begin + len(candidates)
    found = list(_VALUE.finditer(data, begin, end))
    if len(found) != 1:
        return None
    return data[: found[0].start(1)], data[found[0].end(1) - 1 : end]
