"""What one backup holds, as a file that is written last.

    {"checksum": SHA-256 of the bytes of `content`, "content": {...}}

A backup without such a file does not exist, whatever else of it lies there. `files`
name what was in the data folder; the bytes lie in the pool under their SHA-256.
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from halfpast_api.backup.errors import DamagedBackup

FORMAT_VERSION = 1


class Metadata(StrEnum):
    """Where the settings are: in the backup, or in a database that has its own."""

    INCLUDED = "included"
    ELSEWHERE = "elsewhere"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackedUpFile:
    """One file. The first `stored` bytes are in the pool; what follows up to `size`
    is zeroes. `mtime_ns` and `inode` tell whether the original is still the same;
    `is_sound` whether that was in order when it was copied."""

    path: str
    size: int
    stored: int
    sha256: str
    mtime_ns: int = 0
    inode: int = 0
    is_sound: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupManifest:
    """`taken_ms` is the moment: everything acknowledged before it is in the backup.
    `applied` tells how far each index has applied the log that is copied with it."""

    format_version: int = FORMAT_VERSION
    name: str
    store_id: str
    taken_ms: int
    log_start: int
    log_end: int
    applied: dict[str, int]
    metadata: Metadata
    files: tuple[BackedUpFile, ...]

    @property
    def size(self) -> int:
        """Bytes of the pool that it needs, at most: equal files share theirs."""
        return sum(file.stored for file in self.files)

    @property
    def unsound(self) -> list[str]:
        """Files that were damaged in the data folder already."""
        return [file.path for file in self.files if not file.is_sound]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Envelope:
    checksum: str
    content: msgspec.Raw


def encode_manifest(manifest: BackupManifest) -> bytes:
    content = msgspec.json.encode(manifest)
    checksum = hashlib.sha256(content).hexdigest()
    envelope = _Envelope(checksum=checksum, content=msgspec.Raw(content))
    return msgspec.json.encode(envelope) + b"\n"


def decode_manifest(name: str, data: bytes) -> BackupManifest:
    """Raises DamagedBackup unless it is what was written, under this name."""
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
        content = bytes(envelope.content)
        if hashlib.sha256(content).hexdigest() != envelope.checksum:
            raise DamagedBackup(name, ["its list of files"])
        manifest = msgspec.json.decode(content, type=BackupManifest)
    except (msgspec.DecodeError, ValueError) as error:
        raise DamagedBackup(name, ["its list of files"]) from error
    if manifest.name != name or manifest.format_version != FORMAT_VERSION:
        raise DamagedBackup(name, ["its list of files"])
    return manifest
