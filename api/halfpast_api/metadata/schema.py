"""The tables, as SQLAlchemy sees them; `migrations/` makes them.

Every table begins with `halfpast_`, so that a database may be shared. Names sort
by code point on every database (collation "C"), so that pages do not depend on
where they come from. A deleted row stays, marked: it is how others hear of it.
"""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)
from sqlalchemy.types import TypeEngine

PREFIX = "halfpast_"
REVISION_TABLE = f"{PREFIX}metadata_revision"  # alembic's own; others have theirs

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)


def _name(length: int) -> TypeEngine[str]:
    return String(length).with_variant(String(length, collation="C"), "postgresql")


def _record() -> tuple[Column[int], ...]:
    """What every administered row carries, in ms where it is a time."""
    return (
        Column("version", BigInteger, nullable=False, index=True),
        Column("created_at_ms", BigInteger, nullable=False),
        Column("updated_at_ms", BigInteger, nullable=False),
        Column("deleted_at_ms", BigInteger, nullable=True),
    )


# One row. Its number counts the changes; whoever changes anything locks it first,
# so the order of numbers is the order of commits.
changes = Table(
    f"{PREFIX}changes",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="one_row"),
)

topics = Table(
    f"{PREFIX}topics",
    metadata,
    Column("name", _name(127), primary_key=True),
    Column("queues", Integer, nullable=False),
    Column("max_delay_ms", BigInteger, nullable=False),
    Column("max_body_bytes", Integer, nullable=False),
    Column("flush", String(16), nullable=False),
    Column("description", Text, nullable=False),
    *_record(),
)

groups = Table(
    f"{PREFIX}groups",
    metadata,
    Column("name", _name(127), primary_key=True),
    Column("max_attempts", Integer, nullable=False),
    Column("backoff_initial_ms", BigInteger, nullable=False),
    Column("backoff_max_ms", BigInteger, nullable=False),
    Column("invisible_ms", BigInteger, nullable=False),
    *_record(),
)

limits = Table(
    f"{PREFIX}limits",
    metadata,
    Column("scope", _name(255), primary_key=True),
    Column("name", _name(127), primary_key=True),
    Column("value", BigInteger, nullable=False),
    *_record(),
)
