"""The schema's history.  Each file in `versions` is one step; they ship inside the package."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection

from rivermouth.store.port import StoreError


def settings() -> Config:
    """Alembic's configuration, without a file."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def upgrade(connection: Connection) -> None:
    """All steps that this database has not seen.  Raises `StoreError` when it has seen one that is not ours."""
    config = settings()
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StoreError(f"the database was made by another version of this program ({error})") from None


def head() -> str | None:
    """The newest step."""
    return ScriptDirectory.from_config(settings()).get_current_head()


def known() -> frozenset[str]:
    """Every step of ours."""
    return frozenset(step.revision for step in ScriptDirectory.from_config(settings()).walk_revisions())
