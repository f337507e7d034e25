"""The tables of the call records, as SQLAlchemy Core knows them.

The migrations create them; a test compares the two.  Times are integers in nanoseconds, flags are 0 or 1, lists are
JSON text.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, String, Table, Text

HEAD: Final = "words_0001"
"""The newest migration.  A database that already says so is used as it is, without loading Alembic."""

metadata: Final = MetaData()

calls: Final = Table(
    "calls",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("started_ns", BigInteger, nullable=False),
    Column("operation", String, nullable=False),
    Column("dialect", String, nullable=False),
    Column("surface", String, nullable=False),
    Column("model_asked", String, nullable=False),
    Column("stream", Integer, nullable=False, server_default="0"),
    Column("client_request_id", String),
    Column("key_name", String),
    Column("end_user", String),
    Column("status", String, nullable=False, server_default="open"),
    Column("kind", String),
    Column("message", String),
    Column("cancelled_by", String),
    Column("endpoint_id", String),
    Column("provider", String),
    Column("model_used", String),
    Column("finish_reason", String),
    Column("input_tokens", Integer),
    Column("output_tokens", Integer),
    Column("cached_tokens", Integer),
    Column("reasoning_tokens", Integer),
    Column("estimated", Integer, nullable=False, server_default="0"),
    Column("at_least", Integer, nullable=False, server_default="0"),
    Column("text_chars", Integer, nullable=False, server_default="0"),
    Column("chunks", Integer, nullable=False, server_default="0"),
    Column("first_token_ns", BigInteger),
    Column("ended_ns", BigInteger),
    Column("held_by_keepalive", Integer, nullable=False, server_default="0"),
    Column("price_currency", String),
    Column("decisions", Text, nullable=False, server_default="[]"),
    Column("ignored", Text, nullable=False, server_default="[]"),
    Column("model_version", String),
    Column("region", String),
    Column("sovereignty", String),
    Column("retention", String),
    Column("policy_id", String),
    Column("price_nano", BigInteger),
    Column("price_estimated", Integer, nullable=False, server_default="0"),
    Column("erased", Integer, nullable=False, server_default="0"),
)

calls_open: Final = Index("calls_open", calls.c.status, sqlite_where=calls.c.status == "open")
calls_started: Final = Index("calls_started", calls.c.started_ns)
calls_of_key: Final = Index(
    "calls_of_key", calls.c.key_name, calls.c.started_ns, sqlite_where=calls.c.key_name.is_not(None)
)
calls_of_end_user: Final = Index("calls_of_end_user", calls.c.end_user, sqlite_where=calls.c.end_user.is_not(None))
calls_not_completed: Final = Index(
    "calls_not_completed", calls.c.started_ns, sqlite_where=calls.c.status != "completed"
)

attempts: Final = Table(
    "attempts",
    metadata,
    Column("call_id", String, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("endpoint_id", String, nullable=False),
    Column("provider", String, nullable=False),
    Column("model", String, nullable=False),
    Column("outcome", String, nullable=False),
    Column("started_ns", BigInteger, nullable=False),
    Column("ended_ns", BigInteger),
    Column("kind", String),
    Column("status_code", Integer),
    Column("message", String),
    Column("output_tokens", Integer),
    Column("text_chars", Integer),
    Column("input_tokens", Integer),
    Column("cached_tokens", Integer),
    Column("estimated", Integer, nullable=False, server_default="0"),
    Column("price_nano", BigInteger),
    Column("price_currency", String),
    sqlite_with_rowid=False,
)

calls_text: Final = Table(
    "calls_text",
    metadata,
    Column("call_id", String, primary_key=True),
    Column("started_ns", BigInteger, nullable=False),
    Column("prompt", Text, nullable=False),
    Column("answer", Text, nullable=False),
    Column("cut", Integer, nullable=False, server_default="0"),
    Column("errors", Text, nullable=False, server_default="[]"),
    sqlite_with_rowid=False,
)
calls_text_started: Final = Index("calls_text_started", calls_text.c.started_ns)

facts: Final = Table(
    "facts",
    metadata,
    Column("name", String, primary_key=True),
    Column("value", Text, nullable=False),
    sqlite_with_rowid=False,
)
"""What this database was given when it was made."""
