"""Settings of topics and groups, and limits."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    changes = op.create_table(
        "halfpast_changes",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_halfpast_changes_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_halfpast_changes")),
    )
    op.bulk_insert(changes, [{"id": 1, "version": 0}])
    op.create_table(
        "halfpast_topics",
        sa.Column("name", _name(127), nullable=False),
        sa.Column("queues", sa.Integer(), nullable=False),
        sa.Column("max_delay_ms", sa.BigInteger(), nullable=False),
        sa.Column("max_body_bytes", sa.Integer(), nullable=False),
        sa.Column("flush", sa.String(16), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        *_record(),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_halfpast_topics")),
    )
    op.create_table(
        "halfpast_groups",
        sa.Column("name", _name(127), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("backoff_initial_ms", sa.BigInteger(), nullable=False),
        sa.Column("backoff_max_ms", sa.BigInteger(), nullable=False),
        sa.Column("invisible_ms", sa.BigInteger(), nullable=False),
        *_record(),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_halfpast_groups")),
    )
    op.create_table(
        "halfpast_limits",
        sa.Column("scope", _name(255), nullable=False),
        sa.Column("name", _name(127), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        *_record(),
        sa.PrimaryKeyConstraint("scope", "name", name=op.f("pk_halfpast_limits")),
    )
    for table in ("halfpast_topics", "halfpast_groups", "halfpast_limits"):
        op.create_index(op.f(f"ix_{table}_version"), table, ["version"])


def _name(length: int) -> sa.types.TypeEngine[str]:
    in_order = sa.String(length, collation="C")  # by code point, as on SQLite
    return sa.String(length).with_variant(in_order, "postgresql")


def _record() -> tuple[sa.Column[int], ...]:
    return (
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("deleted_at_ms", sa.BigInteger(), nullable=True),
    )
