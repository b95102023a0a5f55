"""Column types that mean the same on SQLite and PostgreSQL.

Comes in: Python values. Goes out: what each database stores. SQLite's tables are STRICT, so every
type has a name that it knows. Only `ops.store` imports this.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import REAL, BigInteger, DateTime, Dialect, Double, Integer, SmallInteger, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeDecorator, TypeEngine

WideInt = BigInteger().with_variant(Integer(), "sqlite")
"""64 bits: snowflakes and counters. SQLite's INTEGER has them anyway."""
SmallInt = SmallInteger().with_variant(Integer(), "sqlite")
"""16 bits on PostgreSQL: severities, statuses, attempts."""

Real: TypeEngine[float] = Double().with_variant(REAL(), "sqlite")
"""A fraction in 64 bits; SQLite's FLOAT is not strict, its REAL is."""


class Moment(TypeDecorator[datetime]):
    """A moment with its time zone: `timestamptz`, or ISO 8601 text in UTC with milliseconds.

    The text sorts as the moments do, and an operator can read it with any SQLite client.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Text where the database has no such type."""
        if dialect.name == "sqlite":
            return dialect.type_descriptor(Text())
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | str | None:
        """A moment on its way in."""
        if value is None or dialect.name != "sqlite":
            return value
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def process_result_value(
        self, value: datetime | str | None, dialect: Dialect
    ) -> datetime | None:
        """A moment on its way out, in UTC."""
        if value is None:
            return None
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        return moment.astimezone(UTC)


class Facts(TypeDecorator[dict[str, object]]):
    """A JSON object: `jsonb`, or text that SQLite's JSON functions read."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """`jsonb` on PostgreSQL."""
        if dialect.name == "postgresql":
            return dialect.type_descriptor(JSONB())
        return dialect.type_descriptor(Text())

    def process_bind_param(
        self, value: dict[str, object] | None, dialect: Dialect
    ) -> dict[str, object] | str | None:
        """An object on its way in."""
        if value is None or dialect.name == "postgresql":
            return value
        return msgspec.json.encode(value).decode()

    def process_result_value(
        self, value: dict[str, object] | str | None, dialect: Dialect
    ) -> dict[str, object] | None:
        """An object on its way out."""
        if isinstance(value, str):
            return msgspec.json.decode(value, type=dict[str, object])
        return value
