"""The command line.  Every command imports what it needs when it runs, so `rivermouth list` starts at once."""

from __future__ import annotations


def main() -> None:
    """The entry point of the `rivermouth` command."""
    from rivermouth.cli.app import app

    app()
