"""The command line.  Every command imports what it needs when it runs, so `rivermouth list` starts at once.

app, groups, options     the verbs and their options, and nothing else
serve, demo, chat, pull, models, ps, replay, health        one module for each command, or for a family of small ones;
calls, doctor, users, check, policy, db, keys              here those with verbs of their own,
certify, doctor_turns, engine_probe                        and what of `doctor` is long enough for itself
places, client           where a command finds its configuration, its data and a running server; how it asks one
serving, embedded        a server in this thread, and one in another
reload, notify           what a running server is told by its files and by signals, and what it tells its supervisor
bots, certificate        what is looked at before the first call needs it
term, words, failures    how the command line speaks, and with which code it leaves
"""

from __future__ import annotations

import sys
from io import TextIOWrapper


def main() -> None:
    """The entry point of the `rivermouth` command: every expected failure is a sentence and an exit code."""
    from rivermouth.cli.app import app

    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show an emoji is no reason to stop
    try:
        app()
    except SystemExit:
        raise
    except _expected() as error:  # evaluated only when something was raised: a good run imports none of these
        from rivermouth.cli.failures import tell

        sys.exit(tell(error))


def _expected() -> tuple[type[Exception], ...]:
    from rivermouth.cli.failures import EXPECTED

    return EXPECTED
