"""Where a command finds its configuration, its data directory, and a server that runs.

A server writes its address into its data directory when it takes connections, and removes it when it stops, so that
the other commands find it on whatever port it is.  The file only says where to ask: a killed server leaves it behind,
and whoever does not answer there as a Rivermouth is not one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rivermouth.cli.term import Exit, fail

if TYPE_CHECKING:
    from rivermouth.cli.client import Client
    from rivermouth.config import Config
    from rivermouth.store.datadir import DataDir

CONFIG_FILE: Final = "rivermouth.toml"
ADDRESS_FILE: Final = "server.url"
WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - what to call, not to bind


def config_path(option: Path | None) -> Path | None:
    """The file asked for, else the one in this directory, else none."""
    default = Path(CONFIG_FILE)
    return option or (default if default.is_file() else None)


def configured(
    option: Path | None, *, host: str | None = None, port: int | None = None, scripted: bool = True
) -> Config:
    """The configuration of the file, the environment and the command line.  Raises `ConfigError` with every problem.

    scripted: it may ask the scripted models.
    """
    from rivermouth.config import load, override
    from rivermouth.dialects import names

    found = load(config_path(option), os.environ, names(), port=port, scripted=scripted)
    return override(found, host=host, port=port)


def placed(option: Path | None) -> bool:
    """Does the command line or the environment say where the data is?"""
    from rivermouth.store.datadir import ENVIRONMENT

    return bool(option or os.environ.get(ENVIRONMENT))


def data_of(option: Path | None, config_option: Path | None = None, config: Config | None = None) -> DataDir:
    """The data directory: the option's, else the environment's, else the configuration's, else the platform's.

    The configuration is read only when its word counts: a broken file does not keep anyone from their models.
    """
    from rivermouth.store.datadir import DataDir

    if config is None and not placed(option) and config_path(config_option) is not None:
        config = configured(config_option)
    try:
        return DataDir.locate(option, os.environ, config.data_dir if config is not None else None)
    except OSError as error:
        fail(f"the data directory cannot be used: {error.filename}: {error.strerror}", Exit.FAILED)


@contextmanager
def announced(data: DataDir, url: str) -> Iterator[None]:
    """The address stands in the data directory for as long as this lasts."""
    file = data.path / ADDRESS_FILE
    file.write_text(url + "\n", encoding="ascii")
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def announced_at(data: DataDir) -> str | None:
    """The address that a server has announced there, if one has."""
    file = data.path / ADDRESS_FILE
    return file.read_text(encoding="ascii", errors="replace").strip() or None if file.is_file() else None


def addresses(config: Config, data: DataDir) -> list[str]:
    """Where a server may answer: at the address it announced, at the configured one."""
    announced = announced_at(data)
    found = [announced] if announced is not None else []
    host = WILDCARDS.get(config.server.host, config.server.host)
    shown = f"[{host}]" if ":" in host else host
    found.append(f"http://{shown}:{config.server.port}{config.http.base_path}")
    return list(dict.fromkeys(found))


def running(config: Config, data: DataDir) -> Client | None:
    """A client of the server that answers at one of those addresses, with the configured key; None when none does."""
    from rivermouth.cli.client import Client

    key = config.server.keys[0] if config.server.keys else None
    # Whoever listens at a stale address must not be shown the key: /health needs none.
    found = next((url for url in addresses(config, data) if Client(url, None).health() is not None), None)
    return Client(found, key) if found is not None else None
