"""A pytest plugin: tests that `make fault` runs further than the suite does.

    @pytest.mark.thorough               only `make fault` runs it; the suite skips it
    @pytest.mark.thorough(quick=True)   both run it, and it asks `THOROUGH` how far to go

Properties that hypothesis looks for counterexamples of are of the second kind without saying so: the suite tries few
examples, always the same, and `make fault` many, always others.
"""

from __future__ import annotations

import os
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

THOROUGH: Final = bool(os.environ.get("RIVERMOUTH_THOROUGH"))
MARK: Final = "thorough"
SKIPPED: Final = pytest.mark.skip(reason="make fault runs it")

settings.register_profile(
    "steady",
    derandomize=True,
    deadline=None,
    max_examples=15,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough",
    deadline=None,
    max_examples=int(os.environ.get("RIVERMOUTH_EXAMPLES", "300")),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("thorough" if THOROUGH else "steady")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before `-m thorough` chooses."""
    sort_out(items, THOROUGH)


def sort_out(items: list[pytest.Item], thorough: bool) -> None:
    """In the suite, what it does not run is marked as skipped; in `make fault`, properties are marked as its own."""
    for item in items:
        mark = item.get_closest_marker(MARK)
        if mark is None:
            if thorough and is_property(item):
                item.add_marker(MARK)
        elif not thorough and not mark.kwargs.get("quick"):
            item.add_marker(SKIPPED)


def is_property(item: pytest.Item) -> bool:
    """True for a test that hypothesis gives its arguments."""
    return bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))
