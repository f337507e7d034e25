"""`rivermouth serve`: everything, until a signal."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import typer

from rivermouth.cli.bots import warn
from rivermouth.cli.notify import READY, STOPPING, notify
from rivermouth.cli.places import config_path, configured, data_of
from rivermouth.cli.serving import Reread, Tls, close, listening, loop_factory, serving, url_of
from rivermouth.cli.term import Exit, fail, say
from rivermouth.cli.words import some
from rivermouth.config import Config, apart_from, default_model_doubt, override
from rivermouth.local.models.registry import Registry
from rivermouth.secrets import Secret
from rivermouth.store.datadir import DataDir

if TYPE_CHECKING:
    from rivermouth.compose import Services
    from rivermouth.http.server import Server
    from rivermouth.platform.service import Issued

log = structlog.get_logger()

FIRST_STEPS = (
    "There is no model yet.  Pull a small one:   rivermouth pull smollm2:135m",
    "                        or use a provider:  OPENAI_API_KEY=... rivermouth serve   (or any key of `doctor`)",
    "                        or only try it out: rivermouth serve --scripted",
)


def run(
    *,
    config_file: Path | None,
    host: str | None,
    port: int | None,
    data_dir: Path | None,
    scripted: bool,
    also: list[str],
    tls: Tls | None,
) -> None:
    """Serve until told to stop.  Raises `ConfigError`, `DataDirBusy`; exits with `Exit.BUSY` for a taken address,
    and with `Exit.CONFIG` for files of TLS that cannot be used.
    """
    extra = [address(text) for text in also]
    file = config_path(config_file)

    def read() -> Config:
        """What the files say now, as this command line has it.  A file that is gone is no file without settings."""
        config = configured(file, host=host, port=port, scripted=scripted)
        for more_host, more_port in extra:  # raises where an open server could be reached (R16)
            override(config, host=more_host, port=more_port, option="--also")
        return apart_from(config, [(config.server.host, config.server.port), *extra])

    config = read()
    tls = tls_of(config, tls)
    addresses = [(config.server.host, config.server.port), *extra]
    data = data_of(data_dir, config=config)
    registry = Registry(data.path / "models")
    models = [str(model.name) for model in registry.models()]
    sockets = bound(addresses)
    log_as(config, config.secrets)

    def ready(server: Server, services: Services) -> None:
        names = [url_of(sock, tls) + config.http.base_path for sock in sockets]
        for line in welcome(names, data, models, config, scripted=scripted):
            say(line)
        warn(config)
        log.info("server.started", addresses=names, data=str(data.path))
        server.on_drain = lambda: _tell(STOPPING)
        _tell(READY)

    warm, reread = wanted_at_once(config, registry), Reread(read, log_as)
    until_stopped(
        config, data, sockets, ready, scripted=scripted, tls=tls, warm=warm, reread=reread, first_key=tell_first_key
    )


def tell_first_key(issued: Issued) -> None:
    """To the person who starts the server, and to nobody again."""
    say(f"The first admin key, '{issued.key.name}', shown this once: {issued.secret.reveal()}")


def log_as(config: Config, secrets: Iterable[Secret]) -> None:
    """All logging as this configuration has it, without these secrets."""
    from rivermouth.observe import configure_logging

    level = logging.getLevelNamesMapping()[config.log.level.upper()]
    configure_logging(config.log.format, level=level, secrets=secrets)


def _tell(state: str) -> None:
    notify(state)


def tls_of(config: Config, given: Tls | None) -> Tls | None:
    """The files for TLS, of the command line or of the configuration; exits when they cannot be used."""
    server, tls = config.server, given
    names = ("--tls-cert", "--tls-key")
    if tls is None and server.tls_cert is not None and server.tls_key is not None:
        tls, names = (server.tls_cert, server.tls_key), ("server.tls_cert", "server.tls_key")
    if tls is not None:
        from rivermouth.cli.certificate import usable

        usable(tls, names)
    return tls


def until_stopped(
    config: Config,
    data: DataDir,
    sockets: list[socket.socket],
    ready: Callable[[Server, Services], None],
    *,
    scripted: bool,
    tls: Tls | None = None,
    warm: str | None = None,
    reread: Reread | None = None,
    first_key: Callable[[Issued], None] | None = None,
) -> None:
    """Serves in this thread until a signal or `ready`'s server is stopped, and closes the sockets."""
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(
                serving(
                    config,
                    data,
                    sockets,
                    ready,
                    scripted=scripted,
                    tls=tls,
                    warm=warm,
                    reread=reread,
                    first_key=first_key,
                    alone=True,
                )
            )
    finally:
        close(sockets)


def wanted_at_once(config: Config, registry: Registry) -> str | None:
    """The local model that a single user is about to ask: the default one, or the only one that chats."""
    if config.local.profile != "single":
        return None
    chats = [str(model.name) for model in registry.models() if model.manifest.kind == "chat"]
    named = [name for name in chats if config.default_model in (name, name.removesuffix(":latest"))]
    return named[0] if named else chats[0] if len(chats) == 1 else None


def bound(addresses: list[tuple[str, int]]) -> list[socket.socket]:
    """Sockets for all of them; exits when one is taken."""
    try:
        return listening(addresses)
    except OSError as error:
        names = ", ".join(f"{host}:{port}" for host, port in addresses)
        fail(f"cannot listen on {names}: {error.strerror or error}", Exit.BUSY)


def welcome(names: list[str], data: DataDir, models: list[str], config: Config, *, scripted: bool) -> list[str]:
    """What a person wants to know first: where it answers, what it can answer with, and what to do if with nothing."""
    providers = [*(["scripted"] if scripted else []), *config.providers]
    lines = [
        f"Rivermouth answers on {', '.join(names)}",
        f"  data       {data.path}",
        f"  models     {some(len(models), 'local model')}" + (f": {', '.join(models[:5])}" if models else ""),
        f"  providers  {', '.join(providers) or 'none'}",
    ]
    doubt = default_model_doubt(config, [*models, *(_scripted() if scripted else ())])
    lines += [f"  default    {doubt}"] if doubt is not None else []
    return lines if models or providers else [*lines, *FIRST_STEPS]


def _scripted() -> Iterable[str]:
    from rivermouth.providers.scripted import PERSONAS

    return PERSONAS


def address(text: str) -> tuple[str, int]:
    """ "HOST:PORT" in its halves."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise typer.BadParameter(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)
