"""The verbs that have verbs of their own, with their options: calls, doctor, users, config, policy, db, keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rivermouth.cli.options import Config, Data, Json, Key

if TYPE_CHECKING:
    from rivermouth.config import Capability

calls_app = typer.Typer(help="What happened: the calls, newest first.", invoke_without_command=True)
doctor_app = typer.Typer(help="Look at everything; fail when something is broken.", invoke_without_command=True)
users_app = typer.Typer(help="The accounts of the chat application.", no_args_is_help=True)
config_app = typer.Typer(help="The configuration, looked at before a server has to.", no_args_is_help=True)
policy_app = typer.Typer(help="Which endpoints policies admit, and why.", no_args_is_help=True)
db_app = typer.Typer(help="The database of records and chats: bring it up, copy it, put it back.", no_args_is_help=True)
keys_app = typer.Typer(help="Keys for callers of the server: make, list, rotate, revoke.", no_args_is_help=True)

GROUPS: Final[dict[str, typer.Typer]] = {
    "calls": calls_app,
    "doctor": doctor_app,
    "users": users_app,
    "config": config_app,
    "policy": policy_app,
    "db": db_app,
    "keys": keys_app,
}


def _places(context: typer.Context, data_dir: Path | None, config: Path | None) -> dict[str, Path | None]:
    """Where to look, said behind the second word or else behind the first."""
    before: dict[str, Path | None] = context.obj
    return {"data_dir": data_dir or before["data_dir"], "config_file": config or before["config_file"]}


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

    command.shown(
        call_id,
        **_places(context, data_dir, config),
        as_json=as_json,
    )


@calls_app.command("purge")
def calls_purge(context: typer.Context, data_dir: Data = None, config: Config = None, as_json: Json = False) -> None:
    """Delete the records and texts whose time is over, as a server does each hour."""
    from rivermouth.cli import calls as command

    command.purge(**_places(context, data_dir, config), as_json=as_json)


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

    command.run(
        device=device,
        model=model,
        **_places(context, data_dir, config),
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

    command.run(
        key=api_key,
        **_places(context, data_dir, config),
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
