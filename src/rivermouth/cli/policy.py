"""`rivermouth policy explain`: what the policies of a configuration would decide, without a server and without a call.

The decision is made by the code that a server decides by, and told in the words of the API's dry-run.
Only a name that is neither configured nor local is looked for in the lists of the configured providers, as a server
would look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import typer

from rivermouth.cli.places import configured, data_of
from rivermouth.cli.term import Exit, emit, fail, one_line, show
from rivermouth.compose import catalogue, policies_of
from rivermouth.config import Capability, Config
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.routing.endpoint import Policy
from rivermouth.routing.explain import Explanation, explained, lines
from rivermouth.routing.policy import Needs, Selection, select
from rivermouth.store.datadir import DataDir
from rivermouth.store.platform.port import KeyRow

EVEN_LOT = 0.5
"""In place of a draw: nobody is drawn here, and the order says that a call's own may differ."""


def explain(
    model: str,
    *,
    key: str | None,
    policies: Sequence[str],
    capabilities: Sequence[Capability],
    prompt_tokens: int,
    scripted: bool,
    config_file: Path | None,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    """Exits with `Exit.FAILED` where the call would be refused.  Raises `ConfigError`, `StoreError`."""
    config = configured(config_file)
    data = data_of(data_dir, config=config)
    known = policies_of(config)
    for name in policies:
        if name not in known:
            raise typer.BadParameter(f"no policy is called {name!r}; there are: {', '.join(known) or 'none'}")
    bound, models = whose(key, config, data) if key is not None else ((), None)
    held = (*(known[name] for name in policies), *bound)
    always = (known[config.server.policy],) if config.server.policy is not None else ()
    needed = Needs(frozenset(capabilities), prompt_tokens)

    async def decided() -> Explanation:
        async with catalogue(config, data, scripted=scripted) as catalog:
            plan = await catalog.plan(model)

        def decide() -> Selection:
            return select(plan, held, always, needs=lambda: needed, busy={}, draw=lambda: EVEN_LOT)

        return explained(plan, held, always, decide, models)

    try:
        told = asyncio.run(decided())
    except ApiError as error:
        if error.kind is not Kind.NOT_FOUND:
            raise
        fail(error.message, Exit.NOT_FOUND)
    if as_json:
        emit(told)
    else:
        show("\n".join(one_line(line) for line in lines(told)))
    if not told.allowed:
        raise typer.Exit(Exit.FAILED)


def whose(key: str, config: Config, data: DataDir) -> tuple[tuple[Policy, ...], tuple[str, ...] | None]:
    """The policies that hold for the calls of this key, and the models that it may ask for."""
    known = policies_of(config)
    entry = config.keys.get(key)
    name, models = (entry.policy, entry.models) if entry is not None else of_database(key, data)
    if name is None:
        return (), models
    return (known.get(name) or Policy(id=f"{name} (not configured)", providers=()),), models


def of_database(key: str, data: DataDir) -> tuple[str | None, tuple[str, ...] | None]:
    """The policy's name and the models of a key by its name or id, from beside a server that may be running."""
    from rivermouth.store.database import open_reader
    from rivermouth.store.platform.sqlite import SqlitePlatformStore

    rows: Sequence[KeyRow] = ()
    if data.database.exists():
        store = SqlitePlatformStore(open_reader(data.database))
        try:
            rows = store.keys()
        finally:
            store.dispose()
    found = next((row for row in rows if key in (row.id, row.name)), None)
    if found is None:
        fail(f"there is no key {key!r}, neither in the configuration nor in {data.path}", Exit.NOT_FOUND)
    return found.policy, found.models
