"""Stages: folders in which something is built, or taken apart, out of everybody's sight.

Each is named after the process that works in it.  What is whole is moved into its place by a rename; what a killed
process left is found by its name, and removed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path


def opened(folder: Path, prefix: str = "") -> Path:
    """A new stage of this process in the folder, which exists."""
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=folder))


def sweep(folder: Path, prefix: str = "") -> None:
    """Removes the stages whose process is gone, and whatever else is called like stages and is none."""
    for stage in folder.glob(f"{prefix}*"):
        if not _is_worked_in(stage.name.removeprefix(prefix)):
            shutil.rmtree(stage, ignore_errors=True)


def sync(path: Path) -> None:
    """Makes a file, or the entries of a folder, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_worked_in(name: str) -> bool:
    pid = name.partition("-")[0]
    if not (pid.isascii() and pid.isdigit()):
        return False
    try:
        os.kill(int(pid), 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):  # a number that no process has, or can have
        return False
    return True
