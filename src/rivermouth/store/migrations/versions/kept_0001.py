"""Answers that clients may ask for again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "kept_0001"
down_revision = "resume_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "kept_answers",
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("call_id", sa.String, nullable=False, unique=True),
        sa.Column("dialect", sa.String, nullable=False),
        sa.Column("key_name", sa.String),
        sa.Column("key_id", sa.String),
        sa.Column("previous", sa.String),
        sa.Column("background", sa.Integer, nullable=False, server_default="0"),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
        sa.Column("expires_ns", sa.BigInteger, nullable=False),
        sa.Column("ended_ns", sa.BigInteger),
        sa.Column("last", sa.Integer, nullable=False, server_default="0"),
        sa.Column("input", sa.Text, nullable=False),
        sa.Column("answer", sa.Text, nullable=False),
    )
    op.create_index("kept_of_key", "kept_answers", ["key_name", "key_id"])
    op.create_index("kept_expiring", "kept_answers", ["expires_ns"])
    op.create_index("kept_unended", "kept_answers", ["ended_ns"], sqlite_where=sa.text("ended_ns IS NULL"))


def downgrade() -> None:
    op.drop_table("kept_answers")
