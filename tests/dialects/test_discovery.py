"""A dialect is found by its module alone."""

from __future__ import annotations

from rivermouth.dialects import discover, names


def test_it_is_known_by_the_name_of_its_module() -> None:
    """So a configuration can be checked before any dialect is imported."""
    assert names() == {dialect.name for dialect in discover().values()} == set(discover())
