"""A pytest plugin: one thread watches over the time limits of all tests.

pytest-timeout's own way, a thread for each test, costs more than most tests do.  What happens when a limit is passed
stays its own: every stack is shown and the process ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

NEVER: Final = float("inf")


class Watchdog:
    """Calls what it was set with last, once, when that time has passed; unless it is set again or called off before.

    Its thread sleeps to a time that it was set to, and looks then whether that still holds: most tests wake nobody.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due_s = NEVER
        self._sleeps_to_s = NEVER
        self._bark: Callable[[], object] = bool
        self._thread: threading.Thread | None = None

    def set(self, after_s: float, bark: Callable[[], object]) -> None:
        with self._changed:
            self._due_s, self._bark = time.monotonic() + after_s, bark
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
                self._thread.start()
            elif self._due_s < self._sleeps_to_s:
                self._changed.notify()

    def call_off(self) -> None:
        with self._changed:
            self._due_s, self._bark = NEVER, bool

    def _watch(self) -> None:
        while True:
            with self._changed:
                self._sleeps_to_s = self._due_s
                left_s = self._due_s - time.monotonic()
                if left_s > 0:
                    self._changed.wait(None if self._due_s == NEVER else left_s)
                    continue
                bark, self._due_s, self._bark = self._bark, NEVER, bool
            bark()


WATCHDOG: Final = Watchdog()


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    """In place of pytest-timeout's thread; its other method, the signal, it keeps."""
    if settings.method != "thread":
        return None
    from pytest_timeout import timeout_timer  # type: ignore[import-untyped]

    WATCHDOG.set(settings.timeout, partial(timeout_timer, item, settings))
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> None:
    """Before pytest-timeout's own, which calls off what that set."""
    WATCHDOG.call_off()
