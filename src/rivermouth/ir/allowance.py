"""What a caller has left of its limits, for the headers in which a dialect says so."""

from __future__ import annotations

import msgspec


class Quota(msgspec.Struct, frozen=True):
    """One limit: how much there is in a minute, how much of it is left, and in how many seconds all of it is again."""

    limit: int
    remaining: int
    reset_s: float


class Allowance(msgspec.Struct, frozen=True):
    """None: no such limit."""

    requests: Quota | None = None
    tokens: Quota | None = None
