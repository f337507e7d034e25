"""By which rules people sign in: they follow the configuration, and a reload changes them."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from rivermouth.http.keys import Keys
from rivermouth.http.persons import Persons


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """signup: as the configuration has it.  origins: of the pages that the operator allowed."""

    signup: Literal["open", "closed"] | None
    keys: Keys
    origins: tuple[str, ...]
    base_path: str

    @property
    def open(self) -> bool:
        """Strangers may sign up, and be guests.  Unsaid, as long as nobody is asked for a key."""
        return self.signup == "open" or (self.signup is None and self.keys.open)


class Doors(Protocol):
    """Who asks, and by which rules, as the configuration has it at this moment."""

    @property
    def persons(self) -> Persons: ...

    @property
    def rules(self) -> Rules: ...
