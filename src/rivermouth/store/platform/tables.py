"""The tables of the platform keys and of the log of changes.  The migrations create them; a test compares the two.

That the log of changes can only be added to is the database's own rule: triggers that Core cannot describe.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, Index, Integer, String, Table, Text, UniqueConstraint

from rivermouth.store.tables import metadata

platform_keys: Final = Table(
    "platform_keys",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("id", String, nullable=False),
    Column("name", String, nullable=False),
    Column("prefix", String, nullable=False),
    Column("digest", String, nullable=False),
    Column("old_digest", String),
    Column("old_until_ns", BigInteger),
    Column("role", String, nullable=False),
    Column("scopes", Text),
    Column("models", Text),
    Column("policy", String),
    Column("user", String),
    Column("resumable", Integer, nullable=False, server_default="0"),
    Column("limits", Text, nullable=False, server_default="{}"),
    Column("budget", Text),
    Column("created_ns", BigInteger, nullable=False),
    Column("created_by", String, nullable=False),
    Column("expires_ns", BigInteger),
    Column("revoked_ns", BigInteger),
    Column("last_used_ns", BigInteger),
    Column("version", Integer, nullable=False, server_default="1"),
    UniqueConstraint("id", name="one_key_of_an_id"),
    UniqueConstraint("name", name="one_key_of_a_name"),
    UniqueConstraint("digest", name="one_key_of_a_secret"),
)

platform_changes: Final = Table(
    "platform_changes",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("at_ns", BigInteger, nullable=False),
    Column("who", String, nullable=False),
    Column("action", String, nullable=False),
    Column("target", String, nullable=False),
    Column("name", String, nullable=False),
    Column("before", Text, nullable=False, server_default="null"),
    Column("after", Text, nullable=False, server_default="null"),
    sqlite_autoincrement=True,
)
changes_of_target: Final = Index("changes_of_target", platform_changes.c.target)

platform_carried: Final = Table(
    "platform_carried",
    metadata,
    Column("slot_ns", BigInteger, primary_key=True, autoincrement=False),
    Column("key_name", String, primary_key=True),
    Column("policy_id", String, primary_key=True),
    Column("currency", String, primary_key=True),
    Column("nano", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""What calls had cost that were deleted, or that nobody can tell whose they were any more, by quarters of an hour: in
every time zone a day begins at one.  Triggers write it, so no budget grows by forgetting.  "" is no key, no policy.
"""

platform_revision: Final = Table(
    "platform_revision",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("revision", Integer, nullable=False),
)
"""One row."""
