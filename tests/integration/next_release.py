"""The migration scripts of a release after this one, for tests.

PYTEST_DONT_REWRITE: tests import its names before it is a plugin.
"""

import shutil
from pathlib import Path

import pytest

from halfpast_api.metadata.migrate import scripts_folder

REVISION = '''
"""A revision of the next release."""

import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "0001"


def upgrade() -> None:
    op.create_table("halfpast_next", sa.Column("id", sa.Integer()))
    op.add_column("halfpast_topics", sa.Column("paused", sa.Boolean()))
'''


@pytest.fixture
def next_scripts(tmp_path: Path) -> Path:
    """The scripts of a release that has one revision more."""
    folder = tmp_path / "with % in its name"
    shutil.copytree(scripts_folder(), folder, ignore=shutil.ignore_patterns("__*"))
    (folder / "versions" / "9999_next.py").write_text(REVISION)
    return folder
