"""`rivermouth config check`: everything that is wrong with a configuration, before a server has to do with it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

import typer

from rivermouth.cli.places import config_path
from rivermouth.cli.term import Exit, emit, fail, say, show
from rivermouth.config import Config, ConfigError, Problem, default_model_doubt, load, scripted_asked, without_place
from rivermouth.config.problems import dotted
from rivermouth.dialects import names


def run(file: Path | None, *, as_json: bool) -> None:
    """Exits with `Exit.FAILED` where a server would not start."""
    path = config_path(file)
    if path is None:
        fail("there is no rivermouth.toml here; name a file to check", Exit.NOT_FOUND)
    problems: list[Problem] = []
    warnings: list[str] = []
    try:
        config = load(path, os.environ, names())
    except ConfigError as error:
        problems = error.problems
    else:
        problems = [Problem(str(path), 0, "", fault) for fault in faults(config)]
        warnings = list(doubts(config, os.environ))
    if as_json:
        emit({"file": str(path), "problems": problems, "warnings": warnings})
    for problem in () if as_json else problems:
        show(str(problem))
    for warning in () if as_json else warnings:
        show(f"{path}: warning: {warning}")
    if problems:
        raise typer.Exit(Exit.FAILED)
    if not as_json:
        say(f"{path} can be used")


def faults(config: Config) -> Iterator[str]:
    """What keeps a server from starting, and is not in the file itself."""
    if config.server.tls_cert is not None and config.server.tls_key is not None:
        from rivermouth.cli.certificate import fault_of

        pair = (config.server.tls_cert, config.server.tls_key)
        fault = fault_of(pair, ("server.tls_cert", "server.tls_key"))
        if fault is not None:
            yield fault


def doubts(config: Config, environ: Mapping[str, str]) -> Iterator[str]:
    """What a server starts with all the same.  The file may be for another machine: the models here are not asked."""
    from rivermouth.providers.scripted import PERSONAS

    doubt = default_model_doubt(config, PERSONAS)
    if doubt is not None:
        yield f"{doubt} (local models are not looked at)"
    for fault in scripted_asked(config):
        yield f"{dotted(fault.path)}: {fault.message}"
    for name, key, regions in without_place(config, environ):
        yield f"{name} is off: {key} is set, and {' or '.join(regions)} is not"
    if config.server.allow_open and config.server.keys:
        yield "server.allow_open: with keys it has no meaning"
    if config.file is not None and _open_to_others(config.file) and _holds_secrets(config):
        yield "it holds secrets, and not only its owner can read it: write env:NAME or file:PATH instead, or chmod 600"


def _open_to_others(file: str) -> bool:
    return bool(os.stat(file).st_mode & (stat.S_IRGRP | stat.S_IROTH))


def _holds_secrets(config: Config) -> bool:
    """A secret that came from elsewhere says from where."""
    return any(not secret.label for secret in config.secrets)
