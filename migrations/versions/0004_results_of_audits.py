"""Results of audits, window by window."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _window_table(
        "halfpast_audit_transactions",
        _names("producer_group", "topic"),
        *_counts(
            "half committed rolled_back open parked difference unbalanced messages "
            "missing leaked duplicated checked_back check_backs second_phase_lost "
            "slow_local forced"
        ),
        *_figures("outcome_p50_ms outcome_p95_ms outcome_p99_ms outcome_max_ms"),
    )
    _window_table(
        "halfpast_audit_on_time",
        _names("topic"),
        *_counts(
            "scheduled fired cancelled dead pending lost rescheduled early duplicated "
            "fired_anyway unseen judged in_sla"
        ),
        *_figures(
            "lateness_p50_ms lateness_p95_ms lateness_p99_ms lateness_p999_ms "
            "lateness_max_ms sla_ms sla_share"
        ),
    )
    _window_table(
        "halfpast_audit_end_to_end",
        _names("consumer_group", "topic"),
        *_counts(
            "published stored cancelled pending dead lost duplicated unpublished "
            "consumed waiting dead_lettered"
        ),
        *_figures("consume_p50_ms consume_p99_ms consume_max_ms"),
    )
    _window_table(
        "halfpast_audit_histograms",
        [
            sa.Column("measure", sa.String(16), nullable=False),
            *_names("producer_group", "topic"),
            sa.Column("bucket", sa.Integer(), nullable=False, autoincrement=False),
        ],
        *_counts("lower upper count"),
    )
    _window_table(
        "halfpast_audit_offenders",
        [
            sa.Column("audit", sa.String(16), nullable=False),
            sa.Column("reason", sa.String(24), nullable=False),
            *_names("group_name", "topic"),
            sa.Column("place", sa.Integer(), nullable=False, autoincrement=False),
        ],
        sa.Column("event_id", sa.String(36), nullable=False),
        sa.Column("due_ms", sa.BigInteger(), nullable=True),
        sa.Column("stored_ms", sa.BigInteger(), nullable=True),
        sa.Column("lateness_ms", sa.BigInteger(), nullable=True),
        sa.Column("timeline", sa.Text(), nullable=False),
    )
    op.create_index(
        op.f("ix_halfpast_audit_offenders_event_id"),
        "halfpast_audit_offenders",
        ["event_id"],
    )
    _create_runs()


def _create_runs() -> None:
    op.create_table(
        "halfpast_audit_runs",
        sa.Column("run_id", sa.String(36), nullable=False),
        sa.Column("source", sa.String(8), nullable=False),
        sa.Column("read_from", sa.String(8), nullable=False),
        sa.Column("store_id", sa.String(64), nullable=False),
        *_counts(
            "window_ms from_ms to_ms grace_ms horizon_ms horizon_position events "
            "pending_later started_ms finished_ms"
        ),
        sa.Column("details", sa.Text(), nullable=False),
        sa.Column("gaps", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_halfpast_audit_runs")),
    )
    op.create_index(
        op.f("ix_halfpast_audit_runs_finished_ms"),
        "halfpast_audit_runs",
        ["finished_ms"],
    )
    op.create_table(
        "halfpast_audit_streams",
        *_names("name"),
        sa.Column("query_id", sa.String(36), nullable=False),
        *_counts(
            "batch_id window_ms grace_ms memory_ms horizon_ms horizon_position events "
            "updated_ms"
        ),
        sa.Column("gaps", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_halfpast_audit_streams")),
    )


def _window_table(
    name: str, key: list[sa.Column[Any]], *columns: sa.Column[Any]
) -> None:
    """A table whose rows are found by their window and by `key`."""
    window: list[sa.Column[Any]] = [
        sa.Column("window_ms", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column(
            "window_start_ms", sa.BigInteger(), nullable=False, autoincrement=False
        ),
        sa.Column("source", sa.String(8), nullable=False),
    ]
    op.create_table(
        name,
        *window,
        sa.Column("horizon_ms", sa.BigInteger(), nullable=False),
        *key,
        *columns,
        sa.PrimaryKeyConstraint(
            *(column.name for column in (*window, *key)), name=op.f(f"pk_{name}")
        ),
    )


def _names(names: str, *more: str) -> list[sa.Column[Any]]:
    in_order = sa.String(255, collation="C")  # by code point, as on SQLite
    kind = sa.String(255).with_variant(in_order, "postgresql")
    return [sa.Column(name, kind, nullable=False) for name in (names, *more)]


def _counts(names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in names.split()]


def _figures(names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Double(), nullable=True) for name in names.split()]
