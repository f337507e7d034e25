"""Frames that differ from the one before in a single string: read and rewritten without parsing the rest again.

Servers repeat everything around the text in each chunk.  A frame is cut around its text once; a later frame that starts
and ends with the same bytes and holds exactly one JSON string between them is the same document but for that string,
because a string is a whole token: what the parser makes of the bytes around it cannot depend on what is in it.
"""

from __future__ import annotations

import re
from typing import Final

PROBE: Final = b'"\\u0001"'
PROBE_TEXT: Final = "\x01"
# How often a stream may be looked at again: one whose every frame differs elsewhere too is read whole each time.
LEARN_CAP: Final = 8

_VALUE: Final = re.compile(rb'"(?:content|reasoning_content|reasoning)"\s*:\s*("(?:[^"\\]|\\.)+")')


def cut(data: bytes) -> tuple[bytes, bytes] | None:
    """What stands before and after the text of a chunk; None when there is not exactly one candidate."""
    found = list(_VALUE.finditer(data))
    if len(found) != 1:
        return None
    return data[: found[0].start(1)], data[found[0].end(1) :]
