"""Platform keys, a log of changes that can only be added to, and what erased and deleted calls had cost."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "platform_0001"
down_revision = "records_0001"
branch_labels = None
depends_on = None

RECENT = "OLD.price_nano > 0 AND OLD.started_ns > (CAST(strftime('%s', 'now') AS INTEGER) - 2764800) * 1000000000"
"""Of a call that some budget may still have to count: no month is longer than these 32 days."""
CARRY = (
    " BEGIN INSERT INTO platform_carried (slot_ns, key_name, policy_id, currency, nano) VALUES"
    " (OLD.started_ns / 900000000000 * 900000000000, coalesce(OLD.key_name, ''), {policy}, OLD.price_currency,"
    " OLD.price_nano) ON CONFLICT DO UPDATE SET nano = nano + excluded.nano; END"
)


def upgrade() -> None:
    op.create_table(
        "platform_keys",
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("id", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("prefix", sa.String, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("old_digest", sa.String),
        sa.Column("old_until_ns", sa.BigInteger),
        sa.Column("role", sa.String, nullable=False),
        sa.Column("scopes", sa.Text),
        sa.Column("models", sa.Text),
        sa.Column("policy", sa.String),
        sa.Column("user", sa.String),
        sa.Column("limits", sa.Text, nullable=False, server_default="{}"),
        sa.Column("budget", sa.Text),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.String, nullable=False),
        sa.Column("expires_ns", sa.BigInteger),
        sa.Column("revoked_ns", sa.BigInteger),
        sa.Column("last_used_ns", sa.BigInteger),
        sa.Column("version", sa.Integer, nullable=False, server_default="1"),
        sa.UniqueConstraint("id", name="one_key_of_an_id"),
        sa.UniqueConstraint("name", name="one_key_of_a_name"),
        sa.UniqueConstraint("digest", name="one_key_of_a_secret"),
    )
    op.create_table(
        "platform_changes",
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("at_ns", sa.BigInteger, nullable=False),
        sa.Column("who", sa.String, nullable=False),
        sa.Column("action", sa.String, nullable=False),
        sa.Column("target", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("before", sa.Text, nullable=False, server_default="null"),
        sa.Column("after", sa.Text, nullable=False, server_default="null"),
        sqlite_autoincrement=True,
    )
    op.create_index("changes_of_target", "platform_changes", ["target"])
    for verb in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER platform_changes_no_{verb.lower()} BEFORE {verb} ON platform_changes"
            " BEGIN SELECT RAISE(ABORT, 'the log of changes can only be added to'); END"
        )
    op.create_table(
        "platform_revision",
        sa.Column("one", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("revision", sa.Integer, nullable=False),
    )
    op.execute("INSERT INTO platform_revision (one, revision) VALUES (1, 0)")
    op.create_table(
        "platform_carried",
        sa.Column("slot_ns", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("key_name", sa.String, primary_key=True),
        sa.Column("policy_id", sa.String, primary_key=True),
        sa.Column("currency", sa.String, primary_key=True),
        sa.Column("nano", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.execute(
        "CREATE TRIGGER calls_erased AFTER UPDATE OF key_name ON calls"
        f" WHEN OLD.key_name IS NOT NULL AND NEW.key_name IS NOT OLD.key_name AND {RECENT}" + CARRY.format(policy="''")
    )
    op.execute(
        f"CREATE TRIGGER calls_deleted AFTER DELETE ON calls WHEN {RECENT}"
        + CARRY.format(policy="coalesce(OLD.policy_id, '')")
    )


def downgrade() -> None:
    for trigger in ("calls_erased", "calls_deleted"):
        op.execute(f"DROP TRIGGER {trigger}")
    for table in ("platform_carried", "platform_revision", "platform_changes", "platform_keys"):
        op.drop_table(table)
