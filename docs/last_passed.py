"""Notes in docs/last-passed.toml that a long run has passed: when, and on which commit.

    python -m docs.last_passed fault

`make fault`, `make bench` and what else takes too long for every change call it at their end.  The file is committed
with the work: who reads it sees what has changed since.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
FILE: Final = Path("docs", "last-passed.toml")
RUNS: Final = ("agents", "bench", "fault")
HEAD: Final = (
    "# When what takes long last passed, and on which commit: `make bench`, `make fault` and the like write it.\n"
)
PAGES: Final = {"bench": Path("docs", "benchmarks.md")}
"""What a run writes, and where it says so when it goes on beyond a goal that it missed."""
MISSED: Final = "| MISSED |"
CHANGED: Final = ", with changes"
"""What is said of a commit when files of it had been changed since: what passed is in no commit."""

Passed = Mapping[str, Mapping[str, str]]
"""Run -> its date and commit."""


def read(text: str) -> dict[str, dict[str, str]]:
    """What the file says.  An empty text says nothing."""
    return tomllib.loads(text)


def written(passed: Passed) -> str:
    """The file's text; `read` gives the same again."""
    tables = (
        f'\n[{run}]\ndate = "{passed[run]["date"]}"\ncommit = "{passed[run]["commit"]}"\n' for run in sorted(passed)
    )
    return HEAD + "".join(tables)


def commit_of(root: Path) -> str:
    """The commit that is checked out, and whether its files are as they are there, but for what the runs write."""
    commit = _git(root, "rev-parse", "--short=12", "HEAD").strip()
    theirs = [f":!{file.as_posix()}" for file in (FILE, *PAGES.values())]
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", *theirs)
    return commit + (CHANGED if changed else "")


def note(root: Path, run: str, now: datetime) -> None:
    """Writes that this run has passed; what is said of the others stays.  Raises `ValueError` when it missed a goal."""
    page = PAGES.get(run)
    if page is not None and MISSED in (root / page).read_text(encoding="utf-8"):
        raise ValueError(f"goals were missed, as {page} says: {FILE} stays as it is")
    file = root / FILE
    passed = read(file.read_text(encoding="utf-8") if file.is_file() else "")
    passed[run] = {"date": now.date().isoformat(), "commit": commit_of(root)}
    file.write_text(written(passed), encoding="utf-8")


def _git(root: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] not in RUNS:
        raise SystemExit(f"python -m docs.last_passed {'|'.join(RUNS)}")
    try:
        note(ROOT, sys.argv[1], datetime.now(UTC))
    except ValueError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
