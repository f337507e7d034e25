"""The table of kept answers.  The migrations create it; a test compares the two."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, Index, Integer, String, Table, Text

from rivermouth.store.tables import metadata

kept_answers: Final = Table(
    "kept_answers",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("call_id", String, nullable=False, unique=True),
    Column("dialect", String, nullable=False),
    Column("key_name", String),
    Column("key_id", String),
    Column("previous", String),
    Column("background", Integer, nullable=False, server_default="0"),
    Column("created_ns", BigInteger, nullable=False),
    Column("expires_ns", BigInteger, nullable=False),
    Column("ended_ns", BigInteger),
    Column("last", Integer, nullable=False, server_default="0"),
    Column("input", Text, nullable=False),
    Column("answer", Text, nullable=False),
)
kept_of_key: Final = Index("kept_of_key", kept_answers.c.key_name, kept_answers.c.key_id)
kept_expiring: Final = Index("kept_expiring", kept_answers.c.expires_ns)
kept_unended: Final = Index("kept_unended", kept_answers.c.ended_ns, sqlite_where=kept_answers.c.ended_ns.is_(None))
