"""Keys, namespaces, sessions, and the trail of administrative acts."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def _name(length: int) -> sa.types.TypeEngine[str]:
    return sa.String(length).with_variant(
        sa.String(length, collation="C"), "postgresql"
    )


def upgrade() -> None:
    _keys()
    _namespaces()
    _sessions()
    _trail()


def _record() -> list[sa.Column[int]]:
    return [
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("deleted_at_ms", sa.BigInteger(), nullable=True),
    ]


def _keys() -> None:
    op.create_table(
        "halfpast_keys",
        sa.Column("id", _name(32), nullable=False),
        sa.Column("namespace", _name(64), nullable=False),
        sa.Column("all_namespaces", sa.Boolean(), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("view_payload", sa.Boolean(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("secrets", sa.Text(), nullable=False),
        *_record(),
        sa.Column("last_used_ms", sa.BigInteger(), nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_halfpast_keys")),
    )
    op.create_index(op.f("ix_halfpast_keys_version"), "halfpast_keys", ["version"])


def _namespaces() -> None:
    op.create_table(
        "halfpast_namespaces",
        sa.Column("name", _name(64), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("suspended", sa.Boolean(), nullable=False),
        *_record(),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_halfpast_namespaces")),
    )
    op.create_index(
        op.f("ix_halfpast_namespaces_version"), "halfpast_namespaces", ["version"]
    )


def _sessions() -> None:
    op.create_table(
        "halfpast_sessions",
        sa.Column("id", _name(64), nullable=False),
        sa.Column("key_id", _name(32), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("namespace", _name(64), nullable=False),
        sa.Column("all_namespaces", sa.Boolean(), nullable=False),
        sa.Column("view_payload", sa.Boolean(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("seen_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_halfpast_sessions")),
    )
    for column in ("key_id", "seen_at_ms"):
        op.create_index(
            op.f(f"ix_halfpast_sessions_{column}"), "halfpast_sessions", [column]
        )


def _trail() -> None:
    op.create_table(
        "halfpast_trail",
        sa.Column("id", _name(36), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("namespace", _name(64), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("object", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("after", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_halfpast_trail")),
    )
    for column in ("namespace", "actor", "object"):
        op.create_index(
            op.f(f"ix_halfpast_trail_{column}_id"), "halfpast_trail", [column, "id"]
        )
