"""Chats, their turns and messages, the processes that write them, and what a search reads."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "chats_0001"
down_revision = "calls_0001"
branch_labels = None
depends_on = None

LIVE = "state IN ('starting', 'streaming', 'stopping', 'recovering')"
AT_WORK = "state IN ('queued', 'starting', 'streaming', 'stopping', 'recovering')"


def upgrade() -> None:
    op.create_table(
        "chats",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("title", sa.Text, nullable=False, server_default=""),
        sa.Column("titled", sa.Integer, nullable=False, server_default="0"),
        sa.Column("instructions", sa.Text, nullable=False, server_default=""),
        sa.Column("generation", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("active_turn", sa.Integer),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
        sa.Column("updated_ns", sa.BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("chats_of_owner", "chats", ["owner", "updated_ns"])
    op.create_table(
        "turns",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("chat_id", sa.Integer, sa.ForeignKey("chats.id"), nullable=False),
        sa.Column("seqno", sa.Integer, nullable=False),
        sa.Column("request_id", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("worker", sa.String),
        sa.Column("reason", sa.String),
        sa.Column("stop_deadline_ns", sa.BigInteger),
        sa.Column("hard_deadline_ns", sa.BigInteger),
        sa.Column("upstream_called", sa.Integer, nullable=False, server_default="0"),
        sa.Column("user_message_id", sa.Integer, nullable=False, server_default="0"),
        sa.Column("assistant_message_id", sa.Integer),
        sa.Column("parent_id", sa.Integer),
        sa.Column("discarded", sa.Integer, nullable=False, server_default="0"),
        sa.Column("asked", sa.String),
        sa.Column("provider", sa.String),
        sa.Column("model", sa.String),
        sa.Column("call_id", sa.String),
        sa.Column("error", sa.Text),
        sa.Column("usage", sa.Text),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
        sa.Column("ended_ns", sa.BigInteger),
        sa.UniqueConstraint("chat_id", "request_id", name="one_turn_for_a_request"),
        sa.UniqueConstraint("chat_id", "seqno", name="turns_in_order"),
        sqlite_autoincrement=True,
    )
    op.create_index("one_live_turn", "turns", ["chat_id"], unique=True, sqlite_where=sa.text(LIVE))
    op.create_index("turns_at_work", "turns", ["state"], sqlite_where=sa.text(AT_WORK))
    op.create_table(
        "messages",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("chat_id", sa.Integer, sa.ForeignKey("chats.id"), nullable=False),
        sa.Column("turn_id", sa.Integer, sa.ForeignKey("turns.id"), nullable=False),
        sa.Column("role", sa.String, nullable=False),
        sa.Column("parts", sa.Text, nullable=False, server_default="[]"),
        sa.Column("text", sa.Text, nullable=False, server_default=""),
        sa.Column("folded_to", sa.String, nullable=False, server_default=""),
        sa.Column("context_from", sa.Integer),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("messages_of_chat", "messages", ["chat_id"])
    op.create_table(
        "workers",
        sa.Column("boot_id", sa.String, primary_key=True),
        sa.Column("beat_ns", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "preferences",
        sa.Column("owner", sa.String, primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.execute("CREATE VIRTUAL TABLE found_text USING fts5(text, chat_id UNINDEXED, tokenize='unicode61')")


def downgrade() -> None:
    for table in ("found_text", "preferences", "workers", "messages", "turns", "chats"):
        op.drop_table(table)
