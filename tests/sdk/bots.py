"""Plain synchronous generators that the served process runs as models."""

from __future__ import annotations

import socket
from collections.abc import Iterator


def led(messages: list[dict[str, str]]) -> Iterator[str]:
    """Yields the lines that come from the port which the last message names; its end is the end."""
    with (
        socket.create_connection(("127.0.0.1", int(messages[-1]["content"]))) as line,
        line.makefile("r", encoding="utf-8", newline="\n") as pieces,
    ):
        for piece in pieces:
            yield piece.removesuffix("\n")


def parrot(messages: list[dict[str, str]]) -> Iterator[str]:
    """Yields the last message as it came, character by character."""
    yield from messages[-1]["content"]
