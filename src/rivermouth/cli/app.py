"""The verbs of `rivermouth`, with their options.  What they do is in the module of the same name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="rivermouth",
    help="A streaming LLM server: any provider or a local model, behind the API your application already speaks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from rivermouth import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def rivermouth(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """One address in front of every model."""


ConfigOption = Annotated[Path | None, typer.Option("--config", help="rivermouth.toml; default: the one here, if any.")]
DataOption = Annotated[Path | None, typer.Option("--data-dir", help="Where models and records are kept.")]


@app.command()
def serve(
    config: ConfigOption = None,
    host: Annotated[str | None, typer.Option(help="Address to bind; default 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Port; default 8080, 0 takes a free one.")] = None,
    data_dir: DataOption = None,
    scripted: Annotated[bool, typer.Option("--scripted", help="Serve the scripted models too.")] = False,
    also: Annotated[list[str] | None, typer.Option(help="A further HOST:PORT, as in 127.0.0.1:11434.")] = None,
    tls_cert: Annotated[str | None, typer.Option(help="Certificate chain (PEM).")] = None,
    tls_key: Annotated[str | None, typer.Option(help="Private key (PEM).")] = None,
) -> None:
    """Serve until Ctrl-C."""
    from rivermouth.cli import serve as command

    if (tls_cert is None) != (tls_key is None):
        raise typer.BadParameter("--tls-cert and --tls-key go together")
    tls = (tls_cert, tls_key) if tls_cert is not None and tls_key is not None else None
    command.run(
        config_file=config, host=host, port=port, data_dir=data_dir, scripted=scripted, also=also or [], tls=tls
    )
