"""The tables of the chats, as SQLAlchemy Core knows them.  The migrations create them; a test compares the two.

A search reads `found_text`, whose rowid is the id of a message; Core cannot describe a table of that kind (FTS5).
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, String, Table, Text, UniqueConstraint

from rivermouth.store.tables import metadata

LIVE_WORDS: Final = ("starting", "streaming", "stopping", "recovering")
"""The machine's live states as the index has them.  A test compares."""

chats: Final = Table(
    "chats",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("owner", String, nullable=False),
    Column("title", Text, nullable=False, server_default=""),
    Column("titled", Integer, nullable=False, server_default="0"),
    Column("instructions", Text, nullable=False, server_default=""),
    Column("generation", BigInteger, nullable=False, server_default="0"),
    Column("active_turn", Integer),
    Column("created_ns", BigInteger, nullable=False),
    Column("updated_ns", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)
chats_of_owner: Final = Index("chats_of_owner", chats.c.owner, chats.c.updated_ns)

turns: Final = Table(
    "turns",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("chat_id", Integer, ForeignKey("chats.id"), nullable=False),
    Column("seqno", Integer, nullable=False),
    Column("request_id", String, nullable=False),
    Column("state", String, nullable=False),
    Column("generation", BigInteger, nullable=False, server_default="0"),
    Column("worker", String),
    Column("reason", String),
    Column("stop_deadline_ns", BigInteger),
    Column("hard_deadline_ns", BigInteger),
    Column("upstream_called", Integer, nullable=False, server_default="0"),
    Column("user_message_id", Integer, nullable=False, server_default="0"),
    Column("assistant_message_id", Integer),
    Column("parent_id", Integer),
    Column("discarded", Integer, nullable=False, server_default="0"),
    Column("asked", String),
    Column("provider", String),
    Column("model", String),
    Column("call_id", String),
    Column("error", Text),
    Column("usage", Text),
    Column("created_ns", BigInteger, nullable=False),
    Column("ended_ns", BigInteger),
    UniqueConstraint("chat_id", "request_id", name="one_turn_for_a_request"),
    UniqueConstraint("chat_id", "seqno", name="turns_in_order"),
    sqlite_autoincrement=True,
)
one_live_turn: Final = Index(
    "one_live_turn",
    turns.c.chat_id,
    unique=True,
    sqlite_where=turns.c.state.in_(LIVE_WORDS),
)
turns_at_work: Final = Index(
    "turns_at_work",
    turns.c.state,
    sqlite_where=turns.c.state.in_(("queued", *LIVE_WORDS)),
)

messages: Final = Table(
    "messages",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("chat_id", Integer, ForeignKey("chats.id"), nullable=False),
    Column("turn_id", Integer, ForeignKey("turns.id"), nullable=False),
    Column("role", String, nullable=False),
    Column("parts", Text, nullable=False, server_default="[]"),
    Column("text", Text, nullable=False, server_default=""),
    Column("folded_to", String, nullable=False, server_default=""),
    Column("context_from", Integer),
    Column("created_ns", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)
messages_of_chat: Final = Index("messages_of_chat", messages.c.chat_id)

workers: Final = Table(
    "workers",
    metadata,
    Column("boot_id", String, primary_key=True),
    Column("beat_ns", BigInteger, nullable=False),
)

preferences: Final = Table(
    "preferences",
    metadata,
    Column("owner", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("value", Text, nullable=False),
)
