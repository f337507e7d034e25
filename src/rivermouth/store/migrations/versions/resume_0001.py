"""Platform keys whose calls are all resumable."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "resume_0001"
down_revision = "platform_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("platform_keys", sa.Column("resumable", sa.Integer, nullable=False, server_default="0"))


def downgrade() -> None:
    op.execute("ALTER TABLE platform_keys DROP COLUMN resumable")
