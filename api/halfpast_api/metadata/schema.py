"""The tables, as SQLAlchemy sees them; `migrations/` makes them.

Every table begins with `halfpast_`, so that a database may be shared. Names sort
by code point on every database (collation "C"), so that pages do not depend on
where they come from. A deleted row stays, marked: it is how others hear of it.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    false,
    true,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

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


def name_type(length: int) -> TypeEngine[str]:
    """Text that sorts by code point."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


class Words(TypeDecorator[tuple[str, ...]]):
    """A few words, none with a space in it, as one text."""

    impl = Text
    cache_ok = True

    def process_bind_param(
        self, value: tuple[str, ...] | None, dialect: Dialect
    ) -> str | None:
        return None if value is None else " ".join(value)

    def process_result_value(
        self, value: str | None, dialect: Dialect
    ) -> tuple[str, ...] | None:
        return None if value is None else tuple(value.split())


def record() -> tuple[Column[int], ...]:
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
    Column("name", name_type(127), primary_key=True),
    Column("queues", Integer, nullable=False),
    Column("max_delay_ms", BigInteger, nullable=False),
    Column("max_body_bytes", Integer, nullable=False),
    Column("flush", String(16), nullable=False),
    Column("description", Text, nullable=False),
    *record(),
    Column("paused", Boolean, nullable=False, server_default=false()),
    Column("accepting", Boolean, nullable=False, server_default=true()),
    Column("release_rate_per_s", Integer, nullable=False, server_default="0"),
    Column("max_pending", Integer, nullable=False, server_default="0"),
)

groups = Table(
    f"{PREFIX}groups",
    metadata,
    Column("name", name_type(127), primary_key=True),
    Column("max_attempts", Integer, nullable=False),
    Column("backoff_initial_ms", BigInteger, nullable=False),
    Column("backoff_max_ms", BigInteger, nullable=False),
    Column("invisible_ms", BigInteger, nullable=False),
    *record(),
    Column("ordered", Boolean, nullable=False, server_default=false()),
)

producer_groups = Table(
    f"{PREFIX}producer_groups",
    metadata,
    Column("name", name_type(127), primary_key=True),
    Column("check_url", Text, nullable=False),
    Column("check_secrets", Words, nullable=False),
    Column("check_after_ms", BigInteger, nullable=False),
    Column("check_interval_ms", BigInteger, nullable=False),
    Column("check_max", Integer, nullable=False),
    Column("check_timeout_ms", Integer, nullable=False),
    Column("check_concurrency_max", Integer, nullable=False),
    Column("description", Text, nullable=False),
    *record(),
)

endpoints = Table(
    f"{PREFIX}endpoints",
    metadata,
    Column("name", name_type(127), primary_key=True),
    Column("url", Text, nullable=False),
    Column("topics", Words, nullable=False),
    Column("filter", Text, nullable=False),
    Column("mode", String(32), nullable=False),
    Column("ordering", String(16), nullable=False),
    Column("secrets", Words, nullable=False),
    Column("rate_per_s", Double, nullable=False),
    Column("concurrency", Integer, nullable=False),
    Column("timeout_ms", Integer, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("retry_initial_ms", BigInteger, nullable=False),
    Column("retry_max_ms", BigInteger, nullable=False),
    Column("start", String(16), nullable=False),
    Column("description", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    *record(),
)

limits = Table(
    f"{PREFIX}limits",
    metadata,
    Column("scope", name_type(255), primary_key=True),
    Column("name", name_type(127), primary_key=True),
    Column("value", Double, nullable=False),
    *record(),
)
