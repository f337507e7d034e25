"""`rivermouth health`: does the server of this data directory take calls?  For whoever watches over it."""

from __future__ import annotations

from pathlib import Path

import typer

from rivermouth.cli.client import Client
from rivermouth.cli.places import announced_at, data_of
from rivermouth.cli.term import Exit, fail, say


def run(*, url: str | None, data_dir: Path | None, config_file: Path | None) -> None:
    """Ends well when it does; exits with `Exit.FAILED` while it drains, with `Exit.UNREACHABLE` where none answers."""
    asked = url or announced_at(data_of(data_dir, config_file))
    found = Client(asked, own=url is None).health() if asked is not None else None
    if found is None:
        fail(f"{asked} does not answer" if asked is not None else "no server has this data directory", Exit.UNREACHABLE)
    say(f"{asked} is {found['status']}")
    if found["status"] != "ok":
        raise typer.Exit(Exit.FAILED)
