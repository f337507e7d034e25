"""The JavaScript SDKs: which Node runs them, and where their packages are.

    python -m tests.sdk.node      installs what tests/sdk/js/package-lock.json names; says so where that is not possible

Node is that of the development lock.  What is installed stays in the checkout, outside git.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import hatch_build

HERE: Final = Path(__file__).with_name("js")
INSTALL_S: Final = 300.0
IN_A_TEST_S: Final = 50.0
SCRIPT_S: Final = 60.0
ENVIRONMENT: Final = dict(os.environ)
"""As this was started: tests have another home, in which npm would find neither its settings nor what it has kept."""


class NoPackages(Exception):
    """The SDKs are not here and cannot be brought; the text says why, and what to do."""


def install(limit_s: float = INSTALL_S) -> None:
    """The packages of the lock, unless they are the ones that are there.  Raises `NoPackages`."""
    bring(
        HERE,
        limit_s,
        "npm could not bring the packages of tests/sdk/js, so the JavaScript SDKs cannot be tested; with a way to the "
        "registry: .venv/bin/python -m tests.sdk.node",
    )


def bring(place: Path, limit_s: float, otherwise: str, words: tuple[str, ...] = hatch_build.INSTALL) -> None:
    """The packages that the lock in this folder names.  Raises `NoPackages` with that sentence, and why.

    words: what npm is told.
    """
    wanted = hashlib.sha256((place / "package-lock.json").read_bytes()).hexdigest()
    stamp = place / "node_modules" / ".installed"
    with (place / "package.json").open("rb") as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        if stamp.is_file() and stamp.read_text(encoding="ascii") == wanted:
            return
        failure = _fetch(place, limit_s, words)
        if failure is not None:
            raise NoPackages(f"{otherwise}  ({failure})")
        stamp.write_text(wanted, encoding="ascii")


def _fetch(place: Path, limit_s: float, words: tuple[str, ...]) -> str | None:
    """npm does it; what it said where it could not."""
    node = hatch_build.of_wheel()
    if node is None:
        return "Node is not installed: make setup"
    path = f"{node.program.parent}{os.pathsep}{ENVIRONMENT.get('PATH', '')}"
    command = [node.program, node.npm, *words]
    try:
        done = subprocess.run(
            command,
            cwd=place,
            env={**ENVIRONMENT, "PATH": path},
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it did not end within {limit_s:g} s"
    if done.returncode == 0:
        return None
    return next((line for line in done.stderr.splitlines() if line.strip()), f"exit code {done.returncode}")


def run_all(asked: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What each of these scripts sees, given that, in one process of Node's: most of a script's time is its start."""
    return run("all.mjs", json.dumps(asked))


def run(script: str, *arguments: str) -> dict[str, Any]:
    """The document that a script of tests/sdk/js writes as its only output; fails with what it said otherwise."""
    seen: dict[str, Any] = json.loads(_output(HERE / script, *arguments))
    return seen


def said(code: str) -> str:
    """What a module with that text writes, among the packages."""
    return _output("--input-type=module", "--eval", code)


def _output(*arguments: str | Path) -> str:
    node = hatch_build.of_wheel()
    assert node is not None
    done = subprocess.run(
        [node.program, *arguments],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=SCRIPT_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-4000:]
    return done.stdout


if __name__ == "__main__":
    try:
        install()
    except NoPackages as error:
        sys.stderr.write(f"{error}\n")
