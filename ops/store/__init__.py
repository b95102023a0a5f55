"""The error store: tables, queries, migrations. The one package that knows a database."""
