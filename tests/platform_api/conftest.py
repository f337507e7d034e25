"""One server for all: each test looks at what it did itself, and at nothing that another does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.lab import lab
from tests.platform_api.office import CONFIG, Office


@pytest.fixture(scope="package")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with lab(tmp_path_factory.mktemp("office"), CONFIG) as server:
        yield Office(server)
