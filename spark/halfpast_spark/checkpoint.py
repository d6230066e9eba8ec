"""The folder in which a stream keeps how far it has come, and what it remembers.

metadata, offsets, commits, …   Spark's own
origin.json                     which log is counted, and where counting began
remembered/                     `live_saves.py`
"""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .job_errors import StreamConflict

METADATA = "metadata"
ORIGIN = "origin.json"
REMEMBERED = "remembered"
OWN = frozenset(
    {METADATA, "commits", "offsets", "sources", "state", "sinks", ORIGIN, REMEMBERED}
)
TRACES = (".crc", ".tmp")
"""What is put there, and how Spark's checksums and unfinished files end."""
DAMAGED = "it is damaged: --restart"


@dataclass(frozen=True, slots=True)
class Origin:
    """The store whose log is counted, and the position where that began."""

    store_id: str
    position: int


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
        told = self._read(METADATA)
        return "" if told is None else str(told["id"])

    @property
    def last_commit(self) -> int:
        """The number of the last batch that has been noted as done; -1 if none has."""
        try:
            names = [it.name for it in (self.path / "commits").iterdir()]
        except FileNotFoundError:
            return -1
        return max((int(name) for name in names if name.isdigit()), default=-1)

    @property
    def end(self) -> int | None:
        """Where that batch ends in the log, and the next one begins."""
        if self.last_commit < 0:
            return None
        path = self.path / "offsets" / str(self.last_commit)
        try:
            offset = path.read_text(encoding="utf-8").splitlines()[-1]
            return int(json.loads(offset)["position"])
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            raise StreamConflict(str(self.path), DAMAGED) from error

    @property
    def remembered(self) -> Path:
        """The folder for what the stream remembers."""
        return self.path / REMEMBERED

    def origin(self, here: Origin) -> Origin:
        """Where counting began: `here`, for a stream that is new."""
        told = self._read(ORIGIN)
        if told is not None:
            return Origin(str(told["store_id"]), int(told["position"]))
        self.path.mkdir(parents=True, exist_ok=True)
        new = self.path / f"{ORIGIN}.tmp"
        new.write_text(json.dumps(asdict(here)), encoding="utf-8")
        new.rename(self.path / ORIGIN)
        return here

    def clear(self) -> None:
        """Forget the stream."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True, exist_ok=True)

    def _read(self, name: str) -> dict[str, Any] | None:
        keys = {METADATA: {"id"}, ORIGIN: {"store_id", "position"}}
        try:
            text = (self.path / name).read_text(encoding="utf-8")
            told: dict[str, Any] = dict(json.loads(text))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise StreamConflict(str(self.path), DAMAGED) from error
        if not keys[name] <= told.keys():
            raise StreamConflict(str(self.path), DAMAGED)
        return told
