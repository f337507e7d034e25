"""The time limit of a test: it is kept, and it is that of the test that runs."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from tests.promises import ROOT
from tests.watchdog import Watchdog

DEADLINE_S = 10.0
HANGS = """
import time
import pytest

def test_it_is_quick():
    pass

@pytest.mark.timeout(0.2)
def test_it_hangs():
    time.sleep(60)
"""


def test_a_test_that_hangs_ends_the_process_and_shows_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.watchdog"]\n', encoding="utf-8")
    (tmp_path / "test_it.py").write_text(HANGS, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 50\ntimeout_method = thread\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "pytest_timeout"]
    environment = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=25, check=False
    )
    assert done.returncode == 1
    assert "test_it_is_quick PASSED" in done.stdout
    assert "time.sleep(60)" in done.stdout + done.stderr


def test_what_is_called_off_does_not_happen_and_what_is_set_last_does() -> None:
    dog, barked, wrong = Watchdog(), threading.Event(), threading.Event()
    dog.set(60, wrong.set)
    with dog._changed:  # so that its thread sees nothing of what is between
        dog.set(0, wrong.set)
        dog.call_off()
        dog.set(0, wrong.set)
        dog.set(0.001, barked.set)
    assert barked.wait(DEADLINE_S)
    assert not wrong.is_set()


def test_a_shorter_limit_is_kept_while_a_longer_one_is_waited_for() -> None:
    dog, barked = Watchdog(), threading.Event()
    for _ in range(3):
        dog.set(60, bool)
        dog.set(0.01, barked.set)
        assert barked.wait(DEADLINE_S)
        barked.clear()
