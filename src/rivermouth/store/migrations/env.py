"""Run by Alembic: migrate over the connection that `upgrade` was given."""

from __future__ import annotations

from alembic import context

from rivermouth.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
