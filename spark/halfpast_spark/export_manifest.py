"""What an export holds: the one file that makes everything else of it count.

    <folder>/_manifest.json                      this
    <folder>/_export.lock                        held by the process that exports
    <folder>/day=2026-11-20/<start>-<end>.parquet   events by the day they were stored

It is replaced in one step. A file that it does not name is one that is being written,
or has been replaced by a larger one; so readers take the list of files from here.
"""

import os
from pathlib import Path

import msgspec

from halfpast_core_store.real_disk import sync_folder

from .errors import ForeignExport

NAME = "_manifest.json"
LOCK_NAME = "_export"
FORMAT_VERSION = 1


class ExportedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file: the rows of a day from the log between two positions."""

    path: str
    day: str
    start: int
    end: int
    rows: int
    size: int


class Replaced(msgspec.Struct, frozen=True):
    """A file that a larger one has replaced, and when: readers may still have it."""

    path: str
    at_ms: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The log from `start` up to before `end` is in `files`; all that was stored before
    `as_of_ms` lies before `end`."""

    format_version: int = FORMAT_VERSION
    store_id: str
    start: int
    end: int
    as_of_ms: int = 0
    files: list[ExportedFile] = []
    replaced: list[Replaced] = []


def read_manifest(folder: Path) -> Manifest | None:
    """None if nothing has been exported to this folder. Raises ForeignExport."""
    try:
        data = (folder / NAME).read_bytes()
    except FileNotFoundError:
        return None
    try:
        found = msgspec.json.decode(data, type=Manifest)
    except msgspec.ValidationError as error:
        raise ForeignExport(str(folder), f"{NAME} is broken: {error}") from error
    except msgspec.DecodeError as error:
        raise ForeignExport(str(folder), f"{NAME} is broken: {error}") from error
    if found.format_version > FORMAT_VERSION:
        why = f"a newer release has made it (format {found.format_version})"
        raise ForeignExport(str(folder), why)
    return found


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest, durably and in one step."""
    temporary = folder / (NAME + ".new")
    data = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(folder / NAME)
    sync_folder(folder)
