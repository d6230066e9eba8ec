"""Topics can be paused, closed, slowed down and bounded."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column in (
        sa.Column("paused", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("accepting", sa.Boolean(), nullable=False, server_default=sa.true()),
        sa.Column(
            "release_rate_per_s", sa.Integer(), nullable=False, server_default="0"
        ),
        sa.Column("max_pending", sa.Integer(), nullable=False, server_default="0"),
    ):
        op.add_column("halfpast_topics", column)
