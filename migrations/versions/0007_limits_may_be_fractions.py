"""Limits may be fractions, so that a rate can be less than one a second."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("halfpast_limits") as limits:
        limits.alter_column(
            "value",
            existing_type=sa.BigInteger(),
            type_=sa.Double(),
            existing_nullable=False,
        )
