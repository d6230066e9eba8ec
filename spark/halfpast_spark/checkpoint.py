"""The folder in which Spark keeps how far a stream has come, and what it remembers."""

import json
import shutil
from pathlib import Path

from .job_errors import StreamConflict

METADATA = "metadata"
OWN = frozenset({METADATA, "commits", "offsets", "sources", "state", "sinks"})
TRACES = (".crc", ".tmp")
"""What it puts there itself, and how its checksums and unfinished files end."""


class Checkpoint:
    """One stream's folder. It may be missing or empty: then the stream is new."""

    def __init__(self, path: str) -> None:
        """Raises StreamConflict for a folder that holds anything else."""
        self.path = Path(path)
        try:
            names = {it.name for it in self.path.iterdir()}
        except FileNotFoundError:
            names = set[str]()
        except NotADirectoryError:
            raise StreamConflict(path, "this is no folder") from None
        foreign = sorted(it for it in names - OWN if not it.endswith(TRACES))
        if foreign:
            why = (
                f"it holds {foreign[0]!r}, so it is no checkpoint; give another folder"
            )
            raise StreamConflict(path, why)

    @property
    def query_id(self) -> str:
        """The name of the stream that it is of; empty if there is none."""
        try:
            told = json.loads((self.path / METADATA).read_text(encoding="utf-8"))
            return str(told["id"])
        except FileNotFoundError:
            return ""
        except (ValueError, KeyError, TypeError) as error:
            raise StreamConflict(str(self.path), "it is damaged: --restart") from error

    @property
    def last_commit(self) -> int:
        """The number of the last batch that has been noted as done; -1 if none has."""
        try:
            names = [it.name for it in (self.path / "commits").iterdir()]
        except FileNotFoundError:
            return -1
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def clear(self) -> None:
        """Forget the stream."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True, exist_ok=True)
