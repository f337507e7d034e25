"""Where the agents' packages are, which npm brings once: `package.json` and its lock pin them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import hatch_build

from tests.sdk import node

HERE: Final = Path(__file__).parent
MODULES: Final = HERE / "node_modules"
INSTALL: Final = ("install", "--no-save", *hatch_build.INSTALL[1:])
"""Two of the agents are a program per platform, and not every registry has them all: a lock that lacks some of them is
refused by `npm ci`.  This takes versions and checksums of the lock too, does without those, and leaves the lock."""


def install() -> None:
    """Brings them, unless they are here.  Raises `NoPackages`."""
    node.bring(
        HERE, node.INSTALL_S, "npm could not bring the packages of tests/agents, so no agent can be run", INSTALL
    )
