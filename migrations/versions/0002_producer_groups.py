"""Settings of producer groups."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    name = sa.String(127).with_variant(sa.String(127, collation="C"), "postgresql")
    op.create_table(
        "halfpast_producer_groups",
        sa.Column("name", name, nullable=False),
        sa.Column("check_url", sa.Text(), nullable=False),
        sa.Column("check_secrets", sa.Text(), nullable=False),
        sa.Column("check_after_ms", sa.BigInteger(), nullable=False),
        sa.Column("check_interval_ms", sa.BigInteger(), nullable=False),
        sa.Column("check_max", sa.Integer(), nullable=False),
        sa.Column("check_timeout_ms", sa.Integer(), nullable=False),
        sa.Column("check_concurrency_max", sa.Integer(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("deleted_at_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_halfpast_producer_groups")),
    )
    op.create_index(
        op.f("ix_halfpast_producer_groups_version"),
        "halfpast_producer_groups",
        ["version"],
    )
