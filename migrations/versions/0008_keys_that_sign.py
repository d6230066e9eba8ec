"""Keys may have secrets with which their owners sign requests."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "halfpast_keys",
        sa.Column("signing_secrets", sa.Text(), nullable=False, server_default="[]"),
    )
