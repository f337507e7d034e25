"""Where media stand in a body: behind an address, or written out as a `data:` URI."""

from __future__ import annotations

import re
from typing import Final

from rivermouth.ir.errors import invalid

_DATA_URI: Final = re.compile(
    r"data:(?P<type>[\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,(?P<data>[A-Za-z0-9+/=_\s-]*)", re.I
)
LINK: Final = re.compile(r"https?://\S+", re.I)


def split_data_uri(link: str, param: str) -> tuple[str | None, str] | None:
    """(media type, base64) of a `data:` URI; None for any other link.  Raises `ApiError` for one that is not base64."""
    if link[:5].lower() != "data:":
        return None
    found = _DATA_URI.fullmatch(link)
    if found is None:
        raise invalid("a data: URI must be base64, as in data:image/png;base64,...", param)
    return found["type"], "".join(found["data"].split())
