"""Python generators that a test's server calls as models; the test holds them by the events of their kind.

They run in a thread of the server.  Where that server is in the test's own process, `HELD` and `HERE` are the same
objects on both sides.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

HELD = threading.Event()
"""Set, it lets `stuck` go on."""
HERE = threading.Event()
"""Set by `stuck` when it waits."""
CLOSED = threading.Event()
"""Set by every generator that was closed or came to its end."""


def stuck(messages: list[dict[str, str]]) -> Iterator[str]:
    """One word; then it holds its thread, as a call into a native library does, until `HELD` is set."""
    try:
        yield "well"
        HERE.set()
        HELD.wait()
        yield "done"
    finally:
        CLOSED.set()


def endless(messages: list[dict[str, str]]) -> Iterator[str]:
    """One word after the other, for as long as somebody takes them."""
    try:
        while True:
            yield "word "
    finally:
        CLOSED.set()


def fresh() -> None:
    """As nothing had happened."""
    for event in (HELD, HERE, CLOSED):
        event.clear()
