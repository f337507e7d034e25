"""Who asks.  A person is an id, as text; what else there is to know of one is the accounts' business."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Header = tuple[bytes, bytes]


class Identity(Protocol):
    """The port."""

    async def identify(self, headers: Sequence[Header]) -> str:
        """The person whose request has these headers.  Raises `ApiError` authentication."""
        ...
