"""Time zones by their names, from what this machine knows of them."""

from __future__ import annotations

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def zone_of(name: str) -> tzinfo:
    """The zone.  Raises `ValueError` for one that this machine does not know; UTC is known everywhere."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError) as error:  # the name of a folder is an OSError
        raise ValueError(f"no time zone is called {name}") from error


def zone_fault(name: str) -> str | None:
    """Why that is no time zone; None if it is one."""
    try:
        zone_of(name)
    except ValueError as error:
        return str(error) if str(error).startswith("no time zone") else f"no time zone is called {name}"
    return None
