"""Which revisions of the schema there are, without loading what applies them.

Alembic takes longer to load than all else that a process needs for its metadata, and
has nothing to do at nearly every start. What is read here is what alembic reads too:
the lines `revision = "…"` and `down_revision = "…"` of the scripts.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from halfpast_api.metadata.schema import REVISION_TABLE

_LINE = re.compile(r'^(revision|down_revision) *= *"([^"]+)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Revisions:
    """All that this release knows. `newest` is empty if that is not one alone."""

    known: frozenset[str]
    newest: str


def read_revisions(scripts: Path) -> Revisions:
    """What the scripts in a folder say about themselves."""
    known: set[str] = set()
    followed: set[str] = set()
    for path in (scripts / "versions").glob("*.py"):
        said = dict(_LINE.findall(path.read_text(encoding="utf-8")))
        if "revision" in said:
            known.add(said["revision"])
        followed.update({said["down_revision"]} if "down_revision" in said else ())
    heads = known - followed
    return Revisions(frozenset(known), heads.pop() if len(heads) == 1 else "")


def revision_of(connection: Connection) -> str:
    """The revision that a database is at; empty if it has none, or not one alone."""
    if not inspect(connection).has_table(REVISION_TABLE):
        return ""
    version = f"SELECT version_num FROM {REVISION_TABLE}"  # nosec B608 # a constant
    rows = connection.execute(text(version)).all()
    return str(rows[0][0]) if len(rows) == 1 else ""
