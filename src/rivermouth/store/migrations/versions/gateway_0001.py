"""What the gateway knows of a call: the policy, the endpoint's facts, and money as whole billionths."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "gateway_0001"
down_revision = "accounts_0001"
branch_labels = None
depends_on = None

CALLS = ("model_version", "region", "sovereignty", "retention", "policy_id")


def upgrade() -> None:
    for name in CALLS:
        op.add_column("calls", sa.Column(name, sa.String))
    op.add_column("calls", sa.Column("price_nano", sa.BigInteger))
    op.add_column("calls", sa.Column("price_estimated", sa.Integer, nullable=False, server_default="0"))
    op.execute("UPDATE calls SET price_nano = CAST(round(price_amount * 1e9) AS INTEGER), price_estimated = estimated")
    op.execute("ALTER TABLE calls DROP COLUMN price_amount")
    op.add_column("attempts", sa.Column("input_tokens", sa.Integer))
    op.add_column("attempts", sa.Column("cached_tokens", sa.Integer))
    op.add_column("attempts", sa.Column("estimated", sa.Integer, nullable=False, server_default="0"))
    op.add_column("attempts", sa.Column("price_nano", sa.BigInteger))
    op.add_column("attempts", sa.Column("price_currency", sa.String))


def downgrade() -> None:
    op.add_column("calls", sa.Column("price_amount", sa.Float))
    op.execute("UPDATE calls SET price_amount = price_nano / 1e9")
    for name in (*CALLS, "price_nano", "price_estimated"):
        op.execute(f"ALTER TABLE calls DROP COLUMN {name}")
    for name in ("input_tokens", "cached_tokens", "estimated", "price_nano", "price_currency"):
        op.execute(f"ALTER TABLE attempts DROP COLUMN {name}")
