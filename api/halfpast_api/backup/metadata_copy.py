"""A copy of the settings, by the database's own means."""

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from halfpast_api.backup.errors import NotAStore

NAME = "metadata.sqlite"
_SQLITE = "sqlite:///"
_WAIT_S = 30.0


def metadata_path(data: Path, url: str | None) -> Path | None:
    """The SQLite file; None if the settings are in a database of another kind."""
    if url is None:
        return data / NAME
    return Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None


def copy_metadata(path: Path, target: Path) -> None:
    """All that was committed, as one file. Raises NotAStore if it cannot be read."""
    try:
        source = sqlite3.connect(
            f"file:{quote(str(path))}?mode=ro", uri=True, timeout=_WAIT_S
        )
        with closing(source), closing(sqlite3.connect(target)) as made:
            source.backup(made)
            made.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise NotAStore(str(path), f"the settings cannot be read: {error}") from error
