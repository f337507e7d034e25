"""The verbs of `rivermouth`, with their options.  What they do is in the modules beside this one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rivermouth.cli.term import EXIT_CODES

if TYPE_CHECKING:
    from rivermouth.config import Capability

app = typer.Typer(
    name="rivermouth",
    help="A streaming LLM server: any provider or a local model, behind the API your application already speaks.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
calls_app = typer.Typer(help="What happened: the calls, newest first.", invoke_without_command=True)
app.add_typer(calls_app, name="calls")
doctor_app = typer.Typer(help="Look at everything; fail when something is broken.", invoke_without_command=True)
app.add_typer(doctor_app, name="doctor")
users_app = typer.Typer(help="The accounts of the chat application.", no_args_is_help=True)
app.add_typer(users_app, name="users")
config_app = typer.Typer(help="The configuration, looked at before a server has to.", no_args_is_help=True)
app.add_typer(config_app, name="config")
policy_app = typer.Typer(help="Which endpoints policies admit, and why.", no_args_is_help=True)
app.add_typer(policy_app, name="policy")
db_app = typer.Typer(help="The database of records and chats: bring it up, copy it, put it back.", no_args_is_help=True)
app.add_typer(db_app, name="db")
keys_app = typer.Typer(help="Keys for callers of the server: make, list, rotate, revoke.", no_args_is_help=True)
app.add_typer(keys_app, name="keys")

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
    from rivermouth.local.references import FILE, HUB, scheme_of

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


@calls_app.callback()
def calls(
    context: typer.Context,
    usage: Annotated[bool, typer.Option("--usage", help="Sums by model and status instead.")] = False,
    status: Annotated[
        str | None, typer.Option("--status", help="open, completed, failed, cancelled or interrupted.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="The one asked for, or the one that answered.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="At most so many.")] = 20,
    data_dir: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """What happened: the calls, newest first."""
    if context.invoked_subcommand is not None:
        context.obj = {"data_dir": data_dir, "config_file": config}
        return
    from rivermouth.cli import calls as command

    if usage and (status is not None or model is not None):
        raise typer.BadParameter("--usage sums all calls; it takes neither --status nor --model")
    if usage:
        command.usage(data_dir=data_dir, config_file=config, as_json=as_json)
        return
    command.listed(status=status, model=model, limit=limit, data_dir=data_dir, config_file=config, as_json=as_json)


@calls_app.command("show")
def calls_show(
    context: typer.Context,
    call_id: Annotated[
        str,
        typer.Argument(metavar="ID", help="As `calls` shows it, or an answer's x-request-id; its beginning is enough."),
    ],
    data_dir: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """One call: what was tried, what was decided, and how it ended."""
    from rivermouth.cli import calls as command

    before = context.obj
    command.shown(
        call_id,
        data_dir=data_dir or before["data_dir"],
        config_file=config or before["config_file"],
        as_json=as_json,
    )


@calls_app.command("purge")
def calls_purge(context: typer.Context, data_dir: Data = None, config: Config = None, as_json: Json = False) -> None:
    """Delete the records and texts whose time is over, as a server does each hour."""
    from rivermouth.cli import calls as command

    before = context.obj
    command.purge(data_dir=data_dir or before["data_dir"], config_file=config or before["config_file"], as_json=as_json)


@policy_app.command("explain")
def policy_explain(
    model: Annotated[str, typer.Option("--model", metavar="MODEL", help="The name that a client would ask for.")],
    key: Annotated[str | None, typer.Option("--key", metavar="NAME", help="Whose call it would be.")] = None,
    policy: Annotated[
        list[str] | None, typer.Option("--policy", metavar="NAME", help="What the request would ask for itself.")
    ] = None,
    tools: Annotated[bool, typer.Option("--tools", help="It would offer tools.")] = False,
    images: Annotated[bool, typer.Option("--images", help="It would show images.")] = False,
    files: Annotated[bool, typer.Option("--files", help="It would have files.")] = False,
    audio: Annotated[bool, typer.Option("--audio", help="It would have sounds.")] = False,
    json_schema: Annotated[bool, typer.Option("--json-schema", help="It would ask for a schema to be kept.")] = False,
    prompt_tokens: Annotated[int, typer.Option("--prompt-tokens", min=0, help="How long it would be.")] = 0,
    scripted: Annotated[bool, typer.Option("--scripted", help="As a server with the scripted models would.")] = False,
    config: Config = None,
    data_dir: Data = None,
    as_json: Json = False,
) -> None:
    """What would be decided for a call: who might serve it, in which order, and why not the others."""
    from rivermouth.cli import policy as command

    needed: dict[Capability, bool] = {
        "tools": tools,
        "images": images,
        "files": files,
        "audio": audio,
        "json_schema": json_schema,
    }
    command.explain(
        model,
        key=key,
        policies=policy or [],
        capabilities=[name for name, wanted in needed.items() if wanted],
        prompt_tokens=prompt_tokens,
        scripted=scripted,
        config_file=config,
        data_dir=data_dir,
        as_json=as_json,
    )


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


@doctor_app.callback()
def doctor(context: typer.Context, config: Config = None, data_dir: Data = None, as_json: Json = False) -> None:
    """Look at everything; fail when something is broken."""
    if context.invoked_subcommand is not None:
        context.obj = {"data_dir": data_dir, "config_file": config}
        return
    from rivermouth.cli import doctor as command

    command.run(config_file=config, data_dir=data_dir, as_json=as_json)


@doctor_app.command("certify")
def doctor_certify(
    context: typer.Context,
    device: Annotated[str, typer.Option("--device", metavar="DEVICE", help="CPU, GPU, GPU.1, NPU ...")],
    model: Annotated[str | None, typer.Option("--model", help="Default: smollm2:135m, else the first here.")] = None,
    data_dir: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Ask a model on one device, check the answers, and time a cold and a warm load."""
    from rivermouth.cli import certify as command

    before = context.obj
    command.run(
        device=device,
        model=model,
        data_dir=data_dir or before["data_dir"],
        config_file=config or before["config_file"],
        as_json=as_json,
    )


@doctor_app.command("turns")
def doctor_turns(
    context: typer.Context,
    api_key: Key = None,
    data_dir: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """The answers of chats that are being written; fail when one should have ended."""
    from rivermouth.cli import doctor_turns as command

    before = context.obj
    command.run(
        key=api_key,
        data_dir=data_dir or before["data_dir"],
        config_file=config or before["config_file"],
        as_json=as_json,
    )


Ask = Annotated[
    bool, typer.Option("--ask", help="Read the password from the terminal, or from a pipe, instead of making one.")
]


@users_app.command("list")
def users_list(data_dir: Data = None, config: Config = None, as_json: Json = False) -> None:
    """The accounts; guests are not among them."""
    from rivermouth.cli import users as command

    command.listed(data_dir=data_dir, config_file=config, as_json=as_json)


@users_app.command("add")
def users_add(name: str, ask: Ask = False, data_dir: Data = None, config: Config = None) -> None:
    """Make an account; its new password is shown once."""
    from rivermouth.cli import users as command

    command.added(name, ask=ask, data_dir=data_dir, config_file=config)


@users_app.command("reset")
def users_reset(name: str, ask: Ask = False, data_dir: Data = None, config: Config = None) -> None:
    """Give an account a new password, shown once, and end all of its sessions."""
    from rivermouth.cli import users as command

    command.reset(name, ask=ask, data_dir=data_dir, config_file=config)


@users_app.command("rotate-secret")
def users_rotate_secret(
    now: Annotated[
        bool, typer.Option("--now", help="The old secret is good no more: every page has to renew its token.")
    ] = False,
    data_dir: Data = None,
    config: Config = None,
) -> None:
    """Sign access tokens with a new secret; what the old one has signed is good until it runs out."""
    from rivermouth.cli import users as command

    command.rotated(now=now, data_dir=data_dir, config_file=config)


@config_app.command("check")
def config_check(
    file: Annotated[Path | None, typer.Argument(help="Default: the rivermouth.toml that is here.")] = None,
    as_json: Json = False,
) -> None:
    """Say everything that is wrong with a configuration, each with its file and line; fail when there is something."""
    from rivermouth.cli import check as command

    command.run(file, as_json=as_json)


@db_app.command("upgrade")
def db_upgrade(data_dir: Data = None, config: Config = None, as_json: Json = False) -> None:
    """Bring the database to the schema of this version, as the next start would; refuse that of a newer version."""
    from rivermouth.cli import db as command

    command.upgrade(data_dir=data_dir, config_file=config, as_json=as_json)


@db_app.command("backup")
def db_backup(
    file: Annotated[Path, typer.Argument(help="Where the copy is to be; must not exist.")],
    data_dir: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Copy the database to one file and check it, also while a server runs."""
    from rivermouth.cli import db as command

    command.backup(file, data_dir=data_dir, config_file=config, as_json=as_json)


@db_app.command("restore")
def db_restore(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A copy that `db backup` made.")],
    data_dir: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Put a copy in the database's place, and keep what was there; no server may run."""
    from rivermouth.cli import db as command

    command.restore(file, data_dir=data_dir, config_file=config, as_json=as_json)


WhichKey = Annotated[str, typer.Argument(metavar="KEY", help="Its name, or its id.")]


@keys_app.command("create")
def keys_create(
    name: Annotated[str, typer.Argument(help="What records call it; never given twice.")],
    role: Annotated[str, typer.Option("--role", help="user, auditor or admin.")] = "user",
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", help="Only this of generate, embed, models, manage and chat; may be repeated."),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="A pattern of models that it may ask for; may be repeated.")
    ] = None,
    policy: Annotated[str | None, typer.Option("--policy", help="A policy of the configuration that holds.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Whose it is, in your own words.")] = None,
    resumable: Annotated[bool, typer.Option("--resumable", help="All its calls are resumable.")] = False,
    requests_per_minute: Annotated[int | None, typer.Option("--requests-per-minute", help="A limit of calls.")] = None,
    tokens_per_minute: Annotated[int | None, typer.Option("--tokens-per-minute", help="A limit of tokens.")] = None,
    concurrent: Annotated[int | None, typer.Option("--concurrent", help="A limit of calls at once.")] = None,
    budget: Annotated[str | None, typer.Option("--budget", help="As in '50 EUR/month' or '2 EUR/day'.")] = None,
    zone: Annotated[str, typer.Option("--zone", help="The time zone whose midnight begins a new budget.")] = "UTC",
    days: Annotated[float | None, typer.Option("--days", help="Until it expires; without this it does not.")] = None,
    data_dir: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Make a key; its secret is printed once."""
    from rivermouth.cli import keys as command

    new = command.wanted(
        name,
        role=role,
        scopes=scope,
        models=model,
        policy=policy,
        user=user,
        resumable=resumable,
        limits={
            "requests_per_minute": requests_per_minute,
            "tokens_per_minute": tokens_per_minute,
            "concurrent": concurrent,
        },
        budget=budget,
        zone=zone,
        days=days,
    )
    command.create(new, data_dir=data_dir, config_file=config, as_json=as_json)


@keys_app.command("list")
def keys_list(
    revoked: Annotated[bool, typer.Option("--revoked", help="The revoked ones too.")] = False,
    data_dir: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """The keys, without their secrets; those of the configuration first."""
    from rivermouth.cli import keys as command

    command.listed(revoked=revoked, data_dir=data_dir, config_file=config, as_json=as_json)


@keys_app.command("show")
def keys_show(key: WhichKey, data_dir: Data = None, config: Config = None, as_json: Json = False) -> None:
    """Everything about one key but its secret."""
    from rivermouth.cli import keys as command

    command.shown(key, data_dir=data_dir, config_file=config, as_json=as_json)


@keys_app.command("rotate")
def keys_rotate(
    key: WhichKey,
    grace_s: Annotated[
        float | None, typer.Option("--grace-s", min=0, help="How long the old secret stays good; default one day.")
    ] = None,
    data_dir: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Give a key another secret, which is printed once."""
    from rivermouth.cli import keys as command

    command.rotate(key, grace_s=grace_s, data_dir=data_dir, config_file=config, as_json=as_json)


@keys_app.command("revoke")
def keys_revoke(key: WhichKey, data_dir: Data = None, config: Config = None, as_json: Json = False) -> None:
    """End a key for good; a running server knows within two seconds."""
    from rivermouth.cli import keys as command

    command.revoke(key, data_dir=data_dir, config_file=config, as_json=as_json)
