"""What of the engine on this machine changes while it runs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rivermouth.compose import local_provider
from rivermouth.config import Config, LocalConfig
from rivermouth.ir.errors import ApiError
from rivermouth.local.models.references import Pulls
from rivermouth.local.provider import LocalProvider, Wishes
from rivermouth.local.sources.pull import MANIFEST
from rivermouth.store.datadir import DataDir

pytestmark = pytest.mark.anyio


async def test_the_next_load_wait_and_pull_are_as_wished(tmp_path: Path) -> None:
    local = LocalProvider(tmp_path)
    before = local.pool.limits
    wishes = Wishes(
        keep_alive_s=7.0,
        max_models=3,
        max_waiting=5,
        wait_s=1.5,
        chat_template=False,
        pulls=Pulls.NONE,
        pull_limit_bytes=9,
    )
    local.adopt(wishes)
    changed = {"keep_alive_s": 7.0, "max_models": 3, "max_waiting": 5, "wait_s": 1.5}
    assert local.pool.limits == msgspec.structs.replace(before, **changed)
    frames = local.pull("smollm2:135m")
    assert await anext(frames) == MANIFEST
    with pytest.raises(ApiError) as caught:
        await anext(frames)
    assert caught.value.code == "pull_not_allowed"
    await local.close()


async def test_the_wishes_of_no_configuration_are_how_it_begins(tmp_path: Path) -> None:
    """A reload that changes nothing here changes nothing here."""
    from rivermouth.compose.settings import local_wishes

    local = local_provider(Config(), DataDir(tmp_path))
    before = (local.pool.limits, local._chat_template, local.puller._pulls, local.puller._orders)
    local.adopt(local_wishes(Config()))
    assert (local.pool.limits, local._chat_template, local.puller._pulls, local.puller._orders) == before
    local.adopt(local_wishes(Config(local=LocalConfig(max_waiting=1))))
    assert local.pool.limits.max_waiting == 1
    await local.close()
