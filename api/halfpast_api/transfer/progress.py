"""How far an import has come: a small JSON file beside the one that is imported.

It may be a little behind what the server has stored, never ahead of it. What was
under way when the import died is sent again under the same idempotency keys, so
the server recognises it, for a day.
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from halfpast_api.transfer.errors import DamagedProgress
from halfpast_api.transfer.file_identity import FileIdentity
from halfpast_api.transfer.line import Position

SUFFIX: Final = ".halfpast-progress"
KEYS_KNOWN: Final = timedelta(hours=23)
"""How long repeated requests are surely recognised: servers do it for 24 hours."""


class Counts(msgspec.Struct, kw_only=True):
    """What became of the lines so far.

    `recognised` of the stored and scheduled ones had been sent by an earlier run.
    """

    lines: int = 0
    stored: int = 0
    scheduled: int = 0
    recognised: int = 0
    refused: int = 0

    @property
    def taken(self) -> int:
        """Events that are on the server now."""
        return self.stored + self.scheduled

    def add(self, other: "Counts") -> None:
        self.lines += other.lines
        self.stored += other.stored
        self.scheduled += other.scheduled
        self.recognised += other.recognised
        self.refused += other.refused


class Progress(msgspec.Struct, kw_only=True):
    """All that a later run has to know. Everything before `position` is settled.

    `apart` has the chunks behind it from which the server has refused events (their
    indexes), so that the rest of them was sent without those.
    """

    file: FileIdentity
    server: str
    topic: str | None
    format: str
    position: Position = Position()
    chunk: int = 0
    counts: Counts = msgspec.field(default_factory=Counts)
    refused_size: int = 0
    apart: dict[int, list[int]] = msgspec.field(default_factory=dict[int, list[int]])
    is_complete: bool = False
    is_settled: bool = False
    """Nothing was under way when this was written."""
    saved_at: datetime | None = None

    def age(self, now: datetime) -> timedelta:
        """Since it was saved."""
        return now - (self.saved_at or now)


class ProgressFile:
    """Reads and writes the progress of one import."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def beside(cls, path: Path) -> "ProgressFile":
        return cls(path.with_name(path.name + SUFFIX))

    def load(self) -> Progress | None:
        """None if there is none. Raises DamagedProgress."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=Progress)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise DamagedProgress(self.path, str(error)) from error

    def save(self, progress: Progress, *, sync: bool = False) -> None:
        """All of it or nothing, should this process be killed meanwhile; with `sync`
        also should the machine be switched off."""
        progress.saved_at = datetime.now(UTC)
        text = msgspec.json.format(msgspec.json.encode(progress)) + b"\n"
        draft = self.path.with_name(self.path.name + ".new")
        with draft.open("wb") as file:
            file.write(text)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(self.path)
