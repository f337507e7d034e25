"""People and their sessions.  The guest who owned every chat so far is the first of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "accounts_0001"
down_revision = "chats_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    users = op.create_table(
        "users",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, server_default=""),
        sa.Column("name_key", sa.Text, unique=True),
        sa.Column("password", sa.Text),
        sa.Column("guest", sa.Integer, nullable=False, server_default="0"),
        sa.Column("shared", sa.Integer, nullable=False, server_default="0"),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
    )
    op.create_index("one_shared_guest", "users", ["shared"], unique=True, sqlite_where=sa.text("shared = 1"))
    op.create_table(
        "sessions",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("user_id", sa.String, sa.ForeignKey("users.id"), nullable=False),
        sa.Column("secret", sa.String, nullable=False),
        sa.Column("previous", sa.String),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
        sa.Column("renewed_ns", sa.BigInteger, nullable=False),
        sa.Column("expires_ns", sa.BigInteger, nullable=False),
    )
    op.create_index("sessions_of_user", "sessions", ["user_id", "renewed_ns"])
    op.create_index("sessions_by_end", "sessions", ["expires_ns"])
    op.bulk_insert(users, [{"id": "guest", "name": "", "guest": 1, "shared": 1, "created_ns": 0}])


def downgrade() -> None:
    for table in ("sessions", "users"):
        op.drop_table(table)
