"""Options that several verbs have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[Path | None, typer.Option("--config", help="rivermouth.toml; default: the one here, if any.")]
Data = Annotated[
    Path | None, typer.Option("--data-dir", help="Where models and records are kept; else $RIVERMOUTH_DATA.")
]
Json = Annotated[bool, typer.Option("--json", help="For programs, on stdout.")]
Url = Annotated[str | None, typer.Option("--url", help="The server to ask, as in http://127.0.0.1:8080.")]
Key = Annotated[
    str | None, typer.Option("--api-key", envvar="RIVERMOUTH_API_KEY", help="A key of that server.", show_envvar=True)
]
Host = Annotated[str | None, typer.Option(help="Address to bind; default 127.0.0.1.")]
