"""A database for each test that wants one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.databases import laid

NAME = "rivermouth.db"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """One in the test's own folder, and one where a server that is started there finds it."""
    laid(tmp_path / "data" / NAME)
    return laid(tmp_path / NAME)
