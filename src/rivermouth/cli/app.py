"""The verbs of `rivermouth`, with their options; those with verbs of their own are in `groups`.

What they do is in the modules beside this one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rivermouth.cli.groups import GROUPS
from rivermouth.cli.options import Config, Data, Host, Json, Key, Url
from rivermouth.cli.term import EXIT_CODES

app = typer.Typer(
    name="rivermouth",
    help="A streaming LLM server: any provider or a local model, behind the API your application already speaks.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name)


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


@app.command()
def serve(
    config: Config = None,
    host: Host = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Default 8080; 0 takes a free one.")] = None,
    data_dir: Data = None,
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


@app.command()
def chat(
    model: Annotated[str | None, typer.Argument(help="Default: the configured one, else the first local one.")] = None,
    question: Annotated[str | None, typer.Argument(help="Ask this, print the answer, and end.")] = None,
    prompt: Annotated[str | None, typer.Option("-p", "--prompt", help="The same, as an option.")] = None,
    system: Annotated[str | None, typer.Option("--system", help="Instructions for the model.")] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens",
            min=1,
            help="The longest answer; default: the model's end, or 2048 where a local model answers a pipe.",
        ),
    ] = None,
    url: Url = None,
    api_key: Key = None,
    config: Config = None,
    data_dir: Data = None,
) -> None:
    """Talk to a model; with a question or a pipe, one answer on stdout."""
    from rivermouth.cli import chat as command

    if question is not None and prompt is not None:
        raise typer.BadParameter("the question is given twice")
    command.run(
        model=model,
        prompt=prompt if prompt is not None else question,
        system=system,
        max_tokens=max_tokens,
        url=url,
        key=api_key,
        config_file=config,
        data_dir=data_dir,
    )


@app.command()
def demo(
    config: Config = None,
    host: Host = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Default 8080, else the next free one.")] = None,
    data_dir: Data = None,
    once: Annotated[bool, typer.Option("--once", help="End after the answer.")] = False,
) -> None:
    """Pull a small model, serve it, stream one answer, and go on serving."""
    from rivermouth.cli import demo as command

    command.run(config_file=config, host=host, port=port, data_dir=data_dir, once=once)


@app.command()
def pull(
    what: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A name as in smollm2:135m, hf:ORG/REPOSITORY[/FILE.gguf][@REVISION], https://..., or file:PATH.",
        ),
    ],
    file: Annotated[
        Path | None, typer.Option("--file", exists=True, help="A GGUF file, or a folder with an OpenVINO model.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="What it is to be called here.")] = None,
    sha256: Annotated[str | None, typer.Option("--sha256", help="What the file's digest must be.")] = None,
    accept_license: Annotated[
        str | None, typer.Option("--accept-license", metavar="NAME", help="A restricted licence that you accept.")
    ] = None,
    data_dir: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Bring a model here: fetched, verified, named."""
    from rivermouth.local.models.references import FILE, HUB, scheme_of

    scheme = scheme_of(what) if file is None else FILE
    if sha256 is not None and scheme in (None, HUB):
        raise typer.BadParameter("--sha256 goes with a file or an address; the catalogue and the hub have their own")
    if file is not None and name is not None:
        raise typer.BadParameter("with --file the name is the first argument; --name is then one too many")
    if file is None and name is None and scheme not in (None, HUB):
        raise typer.BadParameter("what comes from an address or a path needs a --name")
    from rivermouth.cli import pull as command

    command.run(
        what,
        file=file,
        name=name,
        sha256=sha256,
        accept_license=accept_license,
        data_dir=data_dir,
        config_file=config,
        as_json=as_json,
    )


@app.command("list")
def list_(
    available: Annotated[bool, typer.Option("--available", help="What can be pulled by name instead.")] = False,
    data_dir: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """The models on this machine."""
    from rivermouth.cli import models as command

    if available:
        command.pullable(data_dir, config, as_json=as_json)
    else:
        command.listed(data_dir, config, as_json=as_json)


@app.command()
def show(name: str, data_dir: Data = None, config: Config = None, as_json: Json = False) -> None:
    """What is known of one model."""
    from rivermouth.cli import models as command

    command.shown(name, data_dir, config, as_json=as_json)


@app.command()
def rm(names: list[str], data_dir: Data = None, config: Config = None) -> None:
    """Remove models."""
    from rivermouth.cli import models as command

    command.removed(names, data_dir, config)


@app.command()
def cp(source: str, target: str, data_dir: Data = None, config: Config = None) -> None:
    """Give a model a second name."""
    from rivermouth.cli import models as command

    command.copied(source, target, data_dir, config)


@app.command()
def ps(
    url: Url = None, api_key: Key = None, config: Config = None, data_dir: Data = None, as_json: Json = False
) -> None:
    """The models that a running server has loaded."""
    from rivermouth.cli import ps as command

    command.run(url=url, key=api_key, config_file=config, data_dir=data_dir, as_json=as_json)


@app.command()
def health(url: Url = None, config: Config = None, data_dir: Data = None) -> None:
    """Say whether the server of this data directory takes calls; fail when it does not."""
    from rivermouth.cli import health as command

    command.run(url=url, data_dir=data_dir, config_file=config)


@app.command()
def replay(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", exists=True, dir_okay=False, allow_dash=True, help="The bytes as they came; - is stdin."
        ),
    ],
    to: Annotated[str | None, typer.Option("--to", metavar="DIALECT", help="Write what its client gets.")] = None,
    source: Annotated[
        str | None, typer.Option("--from", metavar="DIALECT", help="Whose stream it is, where that is not clear.")
    ] = None,
    as_events: Annotated[bool, typer.Option("--events", help="Write the neutral events, one on each line.")] = False,
    model: Annotated[str | None, typer.Option("--model", help="Its name for the client; default: as recorded.")] = None,
) -> None:
    """A recorded stream, as a client of another dialect would have got it."""
    from rivermouth.cli import replay as command

    command.run(file=file, to=to, source=source, as_events=as_events, model=model)
