"""Where the agents' packages are, which npm brings once: `package.json` and its lock pin them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.sdk import node

HERE: Final = Path(__file__).parent
MODULES: Final = HERE / "node_modules"


def install() -> None:
    """Brings them, unless they are here.  Raises `NoPackages`."""
    node.bring(HERE, node.INSTALL_S, "npm could not bring the packages of tests/agents, so no agent can be run")
