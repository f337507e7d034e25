"""The tables of the accounts, as SQLAlchemy Core knows them.  The migrations create them; a test compares the two."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, String, Table, Text

from rivermouth.store.tables import metadata

users: Final = Table(
    "users",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", Text, nullable=False, server_default=""),
    Column("name_key", Text, unique=True),
    Column("password", Text),
    Column("guest", Integer, nullable=False, server_default="0"),
    Column("shared", Integer, nullable=False, server_default="0"),
    Column("created_ns", BigInteger, nullable=False),
)
one_shared_guest: Final = Index(
    "one_shared_guest",
    users.c.shared,
    unique=True,
    sqlite_where=users.c.shared == 1,
)

sessions: Final = Table(
    "sessions",
    metadata,
    Column("id", String, primary_key=True),
    Column("user_id", String, ForeignKey("users.id"), nullable=False),
    Column("secret", String, nullable=False),
    Column("previous", String),
    Column("created_ns", BigInteger, nullable=False),
    Column("renewed_ns", BigInteger, nullable=False),
    Column("expires_ns", BigInteger, nullable=False),
)
sessions_of_user: Final = Index("sessions_of_user", sessions.c.user_id, sessions.c.renewed_ns)
sessions_by_end: Final = Index("sessions_by_end", sessions.c.expires_ns)
