"""A process that outlives its agent is found by its home, named and ended; nobody else's is touched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents import leftovers

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not leftovers.PROC.joinpath("self", "environ").exists(), reason="there is no /proc here"),
]
WAITS = (sys.executable, "-c", "input()")


async def test_only_what_has_this_home_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "GRACE_S", 0.0)
    homes = [tmp_path / name for name in ("mine", "mine-too")]
    daemons = [
        subprocess.Popen(WAITS, stdin=subprocess.PIPE, env={"HOME": str(home)}, start_new_session=True)
        for home in homes
    ]
    try:
        (told,) = await leftovers.end(homes[0])
        assert "input()" in told
        assert daemons[0].wait(10) == -9
        assert daemons[1].poll() is None
        assert list(leftovers.at_home(homes[1])) == [daemons[1].pid]
    finally:
        for daemon in daemons:
            daemon.kill()
            daemon.communicate()


async def test_nothing_is_left_of_an_agent_that_ended_well(tmp_path: Path) -> None:
    assert await leftovers.end(tmp_path) == ()
