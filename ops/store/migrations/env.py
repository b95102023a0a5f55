"""Alembic's entry: runs the migrations on the connection that `ops.store.migrate` hands over.

Comes in: `config.attributes["connection"]`. Goes out: a database at the wanted revision. Only
alembic loads this module.
"""

from alembic import context
from sqlalchemy import Connection

from ops.store.tables import SCHEMA

connection: Connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=SCHEMA, transaction_per_migration=False)
context.run_migrations()
