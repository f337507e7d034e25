"""End users as the records know them: the same one is always called the same, and nobody can say who it is.

A client may say for whom it asks.  What it says is often a name or an address, so the records have a keyed hash of it
instead.  The key is in the database: whoever has that can test a guess, but a backup that is restored still finds a
user's calls, and they can be erased.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

FACT: Final = "end_user_key"
"""The name of the key among the facts of a database."""
CHARS: Final = 32


class Pseudonyms:
    """`of(user)`: 32 hex digits, by this key."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()

    def of(self, user: str) -> str:
        said = user.encode("utf-8", "surrogatepass")
        return hmac.new(self._key, said, hashlib.sha256).hexdigest()[:CHARS]
