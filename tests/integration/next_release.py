"""The migration scripts of the releases before and after this one, for tests.

PYTEST_DONT_REWRITE: tests import its names before it is a plugin.
"""

import shutil
from pathlib import Path

import pytest

from halfpast_api.metadata.migrate import scripts_folder

HEAD = max(it.name[:4] for it in (scripts_folder() / "versions").glob("[0-9]*.py"))
"""The last revision of this release."""

REVISION = f'''
"""A revision of the next release."""

import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{HEAD}"


def upgrade() -> None:
    op.create_table("halfpast_next", sa.Column("id", sa.Integer()))
    op.add_column("halfpast_topics", sa.Column("shard", sa.Integer()))
'''


@pytest.fixture
def last_scripts(tmp_path: Path) -> Path:
    """The scripts of the release before, which ends with revision 0002."""
    folder = _copy(tmp_path / "last")
    for script in (folder / "versions").glob("[0-9]*.py"):
        if script.name[:4] > "0002":
            script.unlink()
    return folder


@pytest.fixture
def next_scripts(tmp_path: Path) -> Path:
    """The scripts of a release that has one revision more."""
    folder = _copy(tmp_path / "with % in its name")
    (folder / "versions" / "9999_next.py").write_text(REVISION)
    return folder


def _copy(folder: Path) -> Path:
    shutil.copytree(scripts_folder(), folder, ignore=shutil.ignore_patterns("__*"))
    return folder
