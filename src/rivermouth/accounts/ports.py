"""What the accounts stand on, beside their store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Belongings(Protocol):
    """Whoever works for a user besides the store's rows: the chat."""

    async def quiet(self, owner: str) -> None:
        """What runs for that user is stopped, and has ended when this returns, or will within moments."""
        ...

    def send_away(self, owner: str) -> None:
        """Some session of that user has ended: whoever reads what is theirs has to show again who they are."""
        ...

    async def forgotten(self, owner: str, chat_ids: Sequence[int]) -> None:
        """The rows of these chats are gone: whoever still writes or follows one ends."""
        ...
