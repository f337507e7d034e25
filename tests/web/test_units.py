"""The page's pure modules, by their own tests, which Node runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(120)
def test_of_the_page() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "hatch_build.py", "units"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]


def test_the_lock_names_no_place() -> None:
    text = (ROOT / "web" / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in text
    assert '"integrity"' in text
