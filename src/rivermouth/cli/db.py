"""`rivermouth db`: the database, brought up, copied, put back."""

from __future__ import annotations

from pathlib import Path

from rivermouth.cli.places import data_of
from rivermouth.cli.term import emit, say
from rivermouth.cli.words import size


def upgrade(*, data_dir: Path | None, config_file: Path | None, as_json: bool) -> None:
    """Raises `DataDirBusy` beside a running server, `StoreError` for a schema that is not ours."""
    from rivermouth.store.backup import schema_at
    from rivermouth.store.database import open_database
    from rivermouth.store.tables import HEAD

    data = data_of(data_dir, config_file)
    with data.lock():
        before = schema_at(data.database)
        open_database(data.database).dispose()
    if as_json:
        emit({"file": str(data.database), "from": before, "to": HEAD})
    elif before == HEAD:
        say(f"{data.database} is at {HEAD} already")
    else:
        say(f"{data.database}: from {before or 'nothing'} to {HEAD}")


def backup(target: Path, *, data_dir: Path | None, config_file: Path | None, as_json: bool) -> None:
    """Also beside a running server.  Raises `StoreError`."""
    from rivermouth.store.backup import backup as copy

    data = data_of(data_dir, config_file)
    made = copy(data.database, target)
    if as_json:
        emit(made)
    else:
        say(f"{made.file}: {size(made.size_bytes)}, schema {made.schema}, checked")


def restore(source: Path, *, data_dir: Path | None, config_file: Path | None, as_json: bool) -> None:
    """Raises `DataDirBusy` beside a running server, `StoreError` for a file that cannot be used."""
    from rivermouth.store.backup import restore as put_back

    data = data_of(data_dir, config_file)
    with data.lock():
        restored, kept = put_back(source, data.database)
    if as_json:
        emit({"file": restored.file, "schema": restored.schema, "kept": str(kept) if kept is not None else None})
        return
    say(f"{restored.file} is what {source} held, schema {restored.schema}")
    if kept is not None:
        say(f"What it was before is in {kept}")
