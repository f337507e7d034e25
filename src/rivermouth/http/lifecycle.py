"""Starting, draining, stopping: what the server says about itself."""

from __future__ import annotations

from typing import Final

RETRY_AFTER_S: Final = 5.0


class Lifecycle:
    """`draining` is set by the first SIGTERM; from then on new calls are refused and running ones go on."""

    def __init__(self) -> None:
        self.draining = False
        self.retry_after_s = RETRY_AFTER_S
