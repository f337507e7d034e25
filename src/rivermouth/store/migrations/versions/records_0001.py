"""Texts of calls beside their records, whose calls they were, and what lists and erasures are found by."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "records_0001"
down_revision = "gateway_0001"
branch_labels = None
depends_on = None

INDICES = ("calls_of_key", "calls_of_end_user", "calls_not_completed")


def upgrade() -> None:
    op.add_column("calls", sa.Column("end_user", sa.String))
    op.add_column("calls", sa.Column("erased", sa.Integer, nullable=False, server_default="0"))
    op.create_index("calls_of_key", "calls", ["key_name", "started_ns"], sqlite_where=sa.text("key_name IS NOT NULL"))
    op.create_index("calls_of_end_user", "calls", ["end_user"], sqlite_where=sa.text("end_user IS NOT NULL"))
    op.create_index("calls_not_completed", "calls", ["started_ns"], sqlite_where=sa.text("status <> 'completed'"))
    op.create_table(
        "calls_text",
        sa.Column("call_id", sa.String, primary_key=True),
        sa.Column("started_ns", sa.BigInteger, nullable=False),
        sa.Column("prompt", sa.Text, nullable=False),
        sa.Column("answer", sa.Text, nullable=False),
        sa.Column("cut", sa.Integer, nullable=False, server_default="0"),
        sqlite_with_rowid=False,
    )
    op.create_index("calls_text_started", "calls_text", ["started_ns"])
    op.create_table(
        "facts",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("facts")
    op.drop_table("calls_text")
    for name in INDICES:
        op.drop_index(name, "calls")
    for name in ("end_user", "erased"):
        op.execute(f"ALTER TABLE calls DROP COLUMN {name}")
