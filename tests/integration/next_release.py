"""The migration scripts of the releases before and after this one, for tests.

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
down_revision = "0006"


def upgrade() -> None:
    op.create_table("halfpast_next", sa.Column("id", sa.Integer()))
    op.add_column("halfpast_topics", sa.Column("shard", sa.Integer()))
'''


@pytest.fixture
def last_scripts(tmp_path: Path) -> Path:
    """The scripts of the release before, which ends with revision 0002."""
    folder = _copy(tmp_path / "last")
    (folder / "versions" / "0003_topics_control_their_release.py").unlink()
    (folder / "versions" / "0004_results_of_audits.py").unlink()
    (folder / "versions" / "0005_endpoints.py").unlink()
    (folder / "versions" / "0006_access.py").unlink()
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
