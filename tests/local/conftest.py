"""Tiny model files, and a local provider whose engine processes are real and are gone after the test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rivermouth.local.provider import LocalProvider
from tests.local.asking import install
from tests.tiny_gguf import build


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One of each kind, built once."""
    place = tmp_path_factory.mktemp("gguf")
    return {
        "tiny": build(place / "tiny.gguf"),
        "loop": build(place / "loop.gguf", loop=True),
        "short": build(place / "short.gguf", loop=True, ctx=64),
        "plain": build(place / "plain.gguf", template=None, ctx=16_384),
        "f16": build(place / "f16.gguf", unpacked=True),
    }


@pytest.fixture(scope="session")
async def local(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, Path], anyio_backend: str
) -> AsyncIterator[LocalProvider]:
    """Every file installed under its name; processes stay for all tests of this folder."""
    provider = LocalProvider(tmp_path_factory.mktemp("data") / "models", max_models=len(files), wanted=("CPU",))
    yield filled(provider, files)
    await provider.close()


@pytest.fixture
async def own(data_dir: Path, files: dict[str, Path], anyio_backend: str) -> AsyncIterator[LocalProvider]:
    """The same for one test alone, which may do to it what it likes."""
    provider = LocalProvider(data_dir / "models", wanted=("CPU",))
    yield filled(provider, files)
    await provider.close()


def filled(provider: LocalProvider, files: dict[str, Path]) -> LocalProvider:
    for name, path in files.items():
        install(provider.registry, name, path)
    return provider
