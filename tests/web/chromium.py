"""Which browser the tests of the page drive.

    python -m tests.web.chromium      finds it, or installs Debian's where that is possible; exits 1 where it is not

The headless shell is the same browser without what a person sees of it, and at half the cost.  RIVERMOUTH_CHROMIUM
names another program.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Final

SHELL: Final = "chromium-headless-shell"
NAMES: Final = (SHELL, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
NAMED: Final = os.environ.get("RIVERMOUTH_CHROMIUM")
"""Read when this is imported: tests run without the variables that stand here."""

ADVICE: Final = (
    "No Chromium was found, so the tests of the page cannot run.  On Debian: apt-get install chromium; elsewhere set "
    'RIVERMOUTH_CHROMIUM to the program.  Without one: make test ARGS="--ignore tests/web".'
)


def find() -> str | None:
    """The program's path; None where there is none."""
    return NAMED or next((found for name in NAMES if (found := shutil.which(name))), None)


def install() -> str | None:
    """The path, after an installation where only that was missing and this user may install."""
    found = find()
    if found is not None or shutil.which("apt-get") is None or os.geteuid() != 0:
        return found
    sys.stderr.write("installing Chromium for the tests of the page, with apt-get\n")
    apt_get("update")
    for package in (SHELL, "chromium"):
        if apt_get("install", "-y", "--no-install-recommends", package):
            break
    return find()


def apt_get(*arguments: str) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "-qq", *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
    return done.returncode == 0


if __name__ == "__main__":
    if install() is None:
        sys.exit(ADVICE)
