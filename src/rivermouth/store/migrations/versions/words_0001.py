"""How a provider put its errors, beside the texts that they may quote.

Nothing tells which of the messages in records are such words, so none stays that has its kind beside it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "words_0001"
down_revision = "kept_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("calls_text", sa.Column("errors", sa.Text, nullable=False, server_default="[]"))
    op.execute("UPDATE calls SET message = NULL WHERE message IS NOT NULL AND kind IS NOT NULL")
    op.execute("UPDATE attempts SET message = NULL WHERE message IS NOT NULL AND kind IS NOT NULL")


def downgrade() -> None:
    op.drop_column("calls_text", "errors")
