"""One server for the folder's tests, with the tiny model in its data directory and the scripted ones beside it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from rivermouth.local.models.registry import Registry
from tests.cli.asking import Cli
from tests.local.asking import install
from tests.running import Running, running
from tests.tiny_gguf import build


@pytest.fixture(scope="session")
def tiny_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, tiny_file: Path) -> Iterator[Running]:
    """`rivermouth serve --scripted` with one local model; nobody stops it but the end of the session."""
    folder = tmp_path_factory.mktemp("served")
    install(Registry(folder / "data" / "models"), "tiny", tiny_file)
    with running(folder) as server:
        yield server


@pytest.fixture
def cli(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path, data_dir: Path
) -> Cli:
    """The command in this process, in an empty folder, with an empty data directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RIVERMOUTH_DATA", str(data_dir))
    monkeypatch.setenv("COLUMNS", "200")
    return Cli(monkeypatch, capsysbinary)


@pytest.fixture
def models(data_dir: Path) -> Registry:
    """The registry of that data directory."""
    return Registry(data_dir / "models")


@pytest.fixture
def taken() -> Iterator[int]:
    """A port of loopback where somebody listens who answers nobody."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock.getsockname()[1]


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[Path]:
    """A configuration whose address nobody answers at: its port is held, and refuses connections."""
    file = tmp_path / "silent.toml"
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        file.write_text(f"[server]\nport = {sock.getsockname()[1]}\n", encoding="utf-8")
        yield file
