"""One server to a data directory, and what is in it is private."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from rivermouth.store.datadir import DataDir, DataDirBusy

HOLD = """
import sys
from pathlib import Path
from rivermouth.store.datadir import DataDir
lock = DataDir(Path(sys.argv[1])).lock()
print("held", flush=True)
sys.stdin.read()
"""


def test_the_choice_is_option_then_environment_then_configuration_then_platform(tmp_path: Path, home: Path):
    option, environ, configured = tmp_path / "o", {"RIVERMOUTH_DATA": str(tmp_path / "e")}, str(tmp_path / "c")
    assert DataDir.locate(option, environ, configured).path == tmp_path / "o"
    assert DataDir.locate(None, environ, configured).path == tmp_path / "e"
    assert DataDir.locate(None, {}, configured).path == tmp_path / "c"
    assert DataDir.locate(None, {}, None).path.is_relative_to(home)


def test_a_directory_that_is_made_is_private_and_one_that_exists_is_left(tmp_path: Path):
    made = DataDir(tmp_path / "a" / "b")
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)
    assert stat.S_IMODE(DataDir(shared).path.stat().st_mode) == 0o755
    with made.lock():
        assert stat.S_IMODE((made.path / "server.lock").stat().st_mode) == 0o600


def test_a_second_server_is_told_the_pid_of_the_first(tmp_path: Path):
    with DataDir(tmp_path).lock():
        with pytest.raises(DataDirBusy, match=f"in use by a server with pid {os.getpid()}") as caught:
            DataDir(tmp_path).lock()
        assert caught.value.pid == os.getpid()
    DataDir(tmp_path).lock().release()


def test_a_killed_server_leaves_no_lock(tmp_path: Path):
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        with pytest.raises(DataDirBusy) as caught:
            DataDir(tmp_path).lock()
        assert caught.value.pid == child.pid
        child.kill()
        child.wait()
    DataDir(tmp_path).lock().release()


def test_the_lock_is_not_inherited_by_children(tmp_path: Path):
    with DataDir(tmp_path).lock():
        child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    with child:
        DataDir(tmp_path).lock().release()
