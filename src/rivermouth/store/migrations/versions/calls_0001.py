"""The records of calls and their attempts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "calls_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "calls",
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("started_ns", sa.BigInteger, nullable=False),
        sa.Column("operation", sa.String, nullable=False),
        sa.Column("dialect", sa.String, nullable=False),
        sa.Column("surface", sa.String, nullable=False),
        sa.Column("model_asked", sa.String, nullable=False),
        sa.Column("stream", sa.Integer, nullable=False, server_default="0"),
        sa.Column("client_request_id", sa.String),
        sa.Column("key_name", sa.String),
        sa.Column("status", sa.String, nullable=False, server_default="open"),
        sa.Column("kind", sa.String),
        sa.Column("message", sa.String),
        sa.Column("cancelled_by", sa.String),
        sa.Column("endpoint_id", sa.String),
        sa.Column("provider", sa.String),
        sa.Column("model_used", sa.String),
        sa.Column("finish_reason", sa.String),
        sa.Column("input_tokens", sa.Integer),
        sa.Column("output_tokens", sa.Integer),
        sa.Column("cached_tokens", sa.Integer),
        sa.Column("reasoning_tokens", sa.Integer),
        sa.Column("estimated", sa.Integer, nullable=False, server_default="0"),
        sa.Column("at_least", sa.Integer, nullable=False, server_default="0"),
        sa.Column("text_chars", sa.Integer, nullable=False, server_default="0"),
        sa.Column("chunks", sa.Integer, nullable=False, server_default="0"),
        sa.Column("first_token_ns", sa.BigInteger),
        sa.Column("ended_ns", sa.BigInteger),
        sa.Column("held_by_keepalive", sa.Integer, nullable=False, server_default="0"),
        sa.Column("price_amount", sa.Float),
        sa.Column("price_currency", sa.String),
        sa.Column("decisions", sa.Text, nullable=False, server_default="[]"),
        sa.Column("ignored", sa.Text, nullable=False, server_default="[]"),
    )
    op.create_index("calls_open", "calls", ["status"], sqlite_where=sa.text("status = 'open'"))
    op.create_index("calls_started", "calls", ["started_ns"])
    op.create_table(
        "attempts",
        sa.Column("call_id", sa.String, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("endpoint_id", sa.String, nullable=False),
        sa.Column("provider", sa.String, nullable=False),
        sa.Column("model", sa.String, nullable=False),
        sa.Column("outcome", sa.String, nullable=False),
        sa.Column("started_ns", sa.BigInteger, nullable=False),
        sa.Column("ended_ns", sa.BigInteger),
        sa.Column("kind", sa.String),
        sa.Column("status_code", sa.Integer),
        sa.Column("message", sa.String),
        sa.Column("output_tokens", sa.Integer),
        sa.Column("text_chars", sa.Integer),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("attempts")
    op.drop_table("calls")
