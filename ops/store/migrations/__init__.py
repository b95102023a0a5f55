"""The history of the schema, for both databases. Alembic reads it; `ops.store.migrate` runs it."""
