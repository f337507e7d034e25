"""docs/last-passed.toml: what `make` writes there, and that it can be read."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from docs import last_passed

from tests.promises import ROOT

NOW = datetime(2026, 11, 30, 23, 59, tzinfo=UTC)


def git(root: Path, *arguments: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """With one commit of a file and of what has passed so far."""
    (tmp_path / "docs").mkdir()
    (tmp_path / last_passed.PAGES["bench"]).write_text("| C | 1 ms | 5 | met |\n", encoding="utf-8")
    (tmp_path / "code.py").write_text("1\n", encoding="utf-8")
    (tmp_path / last_passed.FILE).write_text(last_passed.HEAD, encoding="utf-8")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    return tmp_path


def said(root: Path) -> dict[str, dict[str, str]]:
    return last_passed.read((root / last_passed.FILE).read_text(encoding="utf-8"))


def test_a_run_that_passes_is_noted_beside_the_others(clone: Path) -> None:
    commit = git(clone, "rev-parse", "--short=12", "HEAD")
    for run in ("fault", "bench"):
        last_passed.note(clone, run, NOW)
    assert said(clone) == {run: {"date": "2026-11-30", "commit": commit} for run in ("bench", "fault")}
    (clone / last_passed.PAGES["bench"]).write_text("| C | 2 ms | 5 | met |\n", encoding="utf-8")  # the run's own doing
    last_passed.note(clone, "bench", NOW)
    assert said(clone)["bench"]["commit"] == commit
    (clone / "code.py").write_text("2\n", encoding="utf-8")
    last_passed.note(clone, "bench", NOW.replace(month=12))
    assert said(clone)["bench"] == {"date": "2026-12-30", "commit": f"{commit}, with changes"}
    assert said(clone)["fault"] == {"date": "2026-11-30", "commit": commit}


def test_a_run_that_missed_a_goal_has_not_passed(clone: Path) -> None:
    (clone / last_passed.PAGES["bench"]).write_text("| C | 9 ms | 5 | MISSED |\n", encoding="utf-8")
    with pytest.raises(ValueError, match="goals were missed"):
        last_passed.note(clone, "bench", NOW)
    last_passed.note(clone, "fault", NOW)
    assert set(said(clone)) == {"fault"}


def test_the_committed_file_is_as_it_would_be_written() -> None:
    text = (ROOT / last_passed.FILE).read_text(encoding="utf-8")
    passed = last_passed.read(text)
    assert last_passed.written(passed) == text
    assert set(passed) <= set(last_passed.RUNS)


def test_a_run_without_a_name_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "docs.last_passed", "tests"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "agents|bench|fault" in done.stderr


def test_make_notes_every_run_that_takes_long() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    noted = set(re.findall(r"docs\.last_passed (\w+)$", makefile, re.MULTILINE))
    assert {"bench", "fault"} <= noted <= set(last_passed.RUNS)
