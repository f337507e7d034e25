"""`rivermouth` with another catalogue: one parcel, made by a test, which the environment names."""

from __future__ import annotations

import os
from pathlib import Path

from rivermouth.local.models import catalog
from tests.local.fake_index import entry_of

if __name__ == "__main__":
    entry = entry_of(Path(os.environ["SHOP_WHEEL"]), Path(os.environ["SHOP_MODEL"]))
    # Before anybody binds it.
    catalog.CATALOG = {entry.name: entry}  # type: ignore[misc]

    from rivermouth.cli import main

    main()
