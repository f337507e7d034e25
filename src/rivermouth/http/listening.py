"""A socket that listens, before there is anything to answer there: who connects waits, while the rest is imported."""

from __future__ import annotations

import socket
from typing import Final

BACKLOG: Final = 2048


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one.  Raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock
