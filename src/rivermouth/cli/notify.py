"""What a server tells whoever supervises it: a datagram to the socket that NOTIFY_SOCKET names, as systemd has it.

Nobody may be listening, or nobody at all: then nothing is told, and the server goes on.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"


def reloading() -> str:
    """A reload begins; `READY` ends it."""
    return f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}"


def notify(state: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Tells it; False when nobody took it."""
    name = environ.get("NOTIFY_SOCKET", "")
    if not name.startswith(("/", "@")):
        return False
    address = "\0" + name[1:] if name.startswith("@") else name
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
        try:
            sock.sendto(state.encode(), address)
        except OSError:
            return False
    return True
