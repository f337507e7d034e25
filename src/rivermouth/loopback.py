"""Which names and addresses stay on this machine.  One answer for configuration, browser rules and proxies."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Final

NAMES: Final = frozenset({"localhost", "ip6-localhost"})


@lru_cache(maxsize=256)
def is_loopback(name: str) -> bool:
    """True for localhost, names below it, and loopback addresses, IPv6 in or out of brackets."""
    lowered = name.lower().rstrip(".")
    if lowered in NAMES or lowered.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(lowered.strip("[]")).is_loopback
    except ValueError:
        return False
