"""The tables of attempts and of operations on dead letters, as SQLAlchemy sees them."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    String,
    Table,
    Text,
)

from halfpast_api.metadata.schema import PREFIX, metadata, name_type

attempts = Table(
    f"{PREFIX}delivery_attempts",
    metadata,
    Column("endpoint", name_type(127), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("event_id", String(36), nullable=False),
    Column("topic", String(127), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("duration_ms", Integer, nullable=False),
    Column("result", String(32), nullable=False),
    Column("status", Integer, nullable=False),
    Column("error", Text, nullable=False),
    Column("response", Text, nullable=False),
    Column("next_attempt_ms", BigInteger, nullable=False),
    Index(None, "endpoint", "state", "number"),
    Index(None, "endpoint", "event_id", "number"),
)

operations = Table(
    f"{PREFIX}dead_letter_operations",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("namespace", name_type(127), nullable=False),
    Column("action", String(16), nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("dry_run", Boolean, nullable=False),
    Column("wish", Text, nullable=False),
    Column("place", Text, nullable=False),
    Column("scanned", BigInteger, nullable=False),
    Column("expected", BigInteger, nullable=False),
    Column("matched", BigInteger, nullable=False),
    Column("changed", BigInteger, nullable=False),
    Column("gone", BigInteger, nullable=False),
    Column("error", Text, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("finished_at_ms", BigInteger, nullable=False),
)
