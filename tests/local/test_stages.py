from __future__ import annotations

import os
from pathlib import Path

from rivermouth.local.models import stages


def test_a_stage_stays_as_long_as_its_process_and_everything_else_of_the_name_goes(tmp_path: Path) -> None:
    """A number that no process can have comes from a disk that was written elsewhere; it must not stop every pull."""
    for name in ("999999999-dead", "99999999999999999999-never", "\u00b2-no-number", "junk", ".making-junk"):
        (tmp_path / name).mkdir()
    mine = stages.opened(tmp_path)
    assert mine.name.startswith(f"{os.getpid()}-")
    stages.sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [mine]


def test_a_prefix_keeps_the_rest_of_the_folder_out(tmp_path: Path) -> None:
    (tmp_path / "network").mkdir()
    (tmp_path / ".making-999999999-dead").mkdir()
    mine = stages.opened(tmp_path, ".making-")
    stages.sweep(tmp_path, ".making-")
    assert sorted(tmp_path.iterdir()) == sorted([mine, tmp_path / "network"])
