"""`rivermouth serve`: everything, until a signal."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path

import structlog
import typer

from rivermouth.cli.term import Exit, fail, say
from rivermouth.config import Config, ConfigError, load, override
from rivermouth.dialects import discover
from rivermouth.store.datadir import DataDir, DataDirBusy
from rivermouth.store.port import StoreError

log = structlog.get_logger()


def run(
    *,
    config_file: Path | None,
    host: str | None,
    port: int | None,
    data_dir: Path | None,
    scripted: bool,
    also: list[str],
    tls: tuple[str, str] | None,
) -> None:
    """Serve until told to stop.  Exits with `Exit.CONFIG` or `Exit.BUSY` when it cannot begin."""
    from rivermouth.observe import configure_logging

    config = configured(config_file, host, port)
    configure_logging("console" if sys.stderr.isatty() else "json", secrets=config.secrets)
    data = DataDir.locate(data_dir, os.environ, config.data_dir)
    try:
        addresses = [(config.server.host, config.server.port), *(_address(a) for a in also)]
        sockets = listening(addresses)
    except OSError as error:
        fail(f"cannot listen: {error.strerror or error}", Exit.BUSY)
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(config, data, sockets, scripted=scripted, tls=tls))
    except DataDirBusy as error:
        fail(str(error), Exit.BUSY)
    except StoreError as error:
        fail(str(error), Exit.FAILED)
    finally:
        for sock in sockets:
            sock.close()


def configured(config_file: Path | None, host: str | None, port: int | None) -> Config:
    """The configuration of the file, the environment and the command line; exits with every problem it has."""
    default = Path("rivermouth.toml")
    path = config_file or (default if default.is_file() else None)
    try:
        return override(load(path, os.environ, frozenset(discover())), host=host, port=port)
    except ConfigError as error:
        fail(str(error), Exit.CONFIG)


def listening(addresses: list[tuple[str, int]]) -> list[socket.socket]:
    """Sockets for all addresses, or for none.  Raises `OSError`."""
    from rivermouth.http.server import listen

    sockets: list[socket.socket] = []
    try:
        for host, port in addresses:
            sockets.append(listen(host, port))
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    """uvloop's loop where it exists."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop


async def _serve(
    config: Config, data: DataDir, sockets: list[socket.socket], *, scripted: bool, tls: tuple[str, str] | None
) -> None:
    from rivermouth.compose import services
    from rivermouth.http.front import server

    async with services(config, data, scripted=scripted) as made:
        names = [f"{'https' if tls else 'http'}://{_shown(s)}" for s in sockets]

        def ready() -> None:
            say(f"Rivermouth answers on {', '.join(names)}")
            log.info("server.started", addresses=names, data=str(data.path))

        await server(made, tls=tls).run_on(sockets, ready)


def _shown(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit():
        raise typer.BadParameter(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)
