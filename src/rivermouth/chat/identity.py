"""Who asks.  A person is an id, as text; what else there is to know of one is the accounts' business."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

Header = tuple[bytes, bytes]

GUEST: Final = "guest"
"""The one who sits at this machine, as long as nobody has an account."""


class Identity(Protocol):
    """The port."""

    async def identify(self, headers: Sequence[Header]) -> str:
        """The person whose request has these headers.  Raises `ApiError` authentication."""
        ...


class LocalGuest:
    """Everybody is the local guest."""

    async def identify(self, headers: Sequence[Header]) -> str:
        return GUEST
