"""Writes every golden again, from what the code says now: `make goldens`, and then `git diff`.

Nothing else does: a test only compares, so that a change of what goes over a wire is seen by the person who made it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tests.dialects.recordings import RECORDINGS, meaning, meaning_of
from tests.goldens.pages import GOLDENS, golden, pages


def written() -> Iterator[tuple[Path, str]]:
    """Every golden with what it should hold."""
    for recording in RECORDINGS:
        yield meaning_of(recording), meaning(recording)
    for page in pages():
        yield page.path, golden(page)


def main() -> None:
    goldens = dict(written())
    for left in set(GOLDENS.glob("*/*.txt")) - goldens.keys():
        left.unlink()
        sys.stdout.write(f"removed {left.relative_to(GOLDENS)}\n")
    for path, text in goldens.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {path.relative_to(GOLDENS.parent)}\n")


if __name__ == "__main__":
    main()
