"""Endpoints to push to, what became of attempts, and operations on dead letters."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def _name(length: int) -> sa.types.TypeEngine[str]:
    return sa.String(length).with_variant(
        sa.String(length, collation="C"), "postgresql"
    )


def upgrade() -> None:
    _endpoints()
    _attempts()
    _operations()


def _endpoints() -> None:
    op.create_table(
        "halfpast_endpoints",
        sa.Column("name", _name(127), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("topics", sa.Text(), nullable=False),
        sa.Column("filter", sa.Text(), nullable=False),
        sa.Column("mode", sa.String(32), nullable=False),
        sa.Column("ordering", sa.String(16), nullable=False),
        sa.Column("secrets", sa.Text(), nullable=False),
        sa.Column("rate_per_s", sa.Double[float](), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("timeout_ms", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("retry_initial_ms", sa.BigInteger(), nullable=False),
        sa.Column("retry_max_ms", sa.BigInteger(), nullable=False),
        sa.Column("start", sa.String(16), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("deleted_at_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_halfpast_endpoints")),
    )
    op.create_index(
        op.f("ix_halfpast_endpoints_version"), "halfpast_endpoints", ["version"]
    )


def _attempts() -> None:
    op.create_table(
        "halfpast_delivery_attempts",
        sa.Column("endpoint", _name(127), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("event_id", sa.String(36), nullable=False),
        sa.Column("topic", sa.String(127), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("duration_ms", sa.Integer(), nullable=False),
        sa.Column("result", sa.String(32), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("response", sa.Text(), nullable=False),
        sa.Column("next_attempt_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "endpoint", "number", name=op.f("pk_halfpast_delivery_attempts")
        ),
    )
    op.create_index(
        op.f("ix_halfpast_delivery_attempts_endpoint_state_number"),
        "halfpast_delivery_attempts",
        ["endpoint", "state", "number"],
    )
    op.create_index(
        op.f("ix_halfpast_delivery_attempts_endpoint_event_id_number"),
        "halfpast_delivery_attempts",
        ["endpoint", "event_id", "number"],
    )


def _operations() -> None:
    op.create_table(
        "halfpast_dead_letter_operations",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("namespace", _name(127), nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column("wish", sa.Text(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("scanned", sa.BigInteger(), nullable=False),
        sa.Column("expected", sa.BigInteger(), nullable=False),
        sa.Column("matched", sa.BigInteger(), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("gone", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("finished_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_halfpast_dead_letter_operations")),
    )
    op.create_index(
        op.f("ix_halfpast_dead_letter_operations_state"),
        "halfpast_dead_letter_operations",
        ["state"],
    )
