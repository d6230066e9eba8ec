"""Consumer groups can take the messages of a key one at a time, in order."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "halfpast_groups",
        sa.Column("ordered", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
