"""The last known metadata in a small file, for a start without the database.

One JSON object, replaced as a whole (written beside, synced, renamed):

    {"format_version": 1, "source": "sqlite:///…", "version": 12,
     "read_at_ms": 1767225600000, "topics": {"orders": {"queues": 4, …}},
     "groups": {…}, "producer_groups": {"shop": {"check_url": "https://…", …}},
     "endpoints": {"crm": {"url": "https://…", …}},
     "keys": {"k3x9q2mv": {…}}, "namespaces": {"acme": {…}},
     "limits": {"key:k3x9q2mv": {"requests_per_s": 100.0}}}

It holds the secrets of producer groups and endpoints, and signing secrets, so only its
owner may read it.
`source` is the database that it came from: with another database configured the file is
not used. Fields that are missing have their defaults and unknown ones are skipped, so
that releases can read each other's.
"""

import os
from pathlib import Path

import msgspec

from halfpast_api.metadata.access_settings import KeySettings, NamespaceSettings
from halfpast_api.metadata.endpoint_settings import EndpointSettings
from halfpast_api.metadata.errors import SnapshotUnusable
from halfpast_api.metadata.settings import (
    GroupSettings,
    ProducerGroupSettings,
    TopicSettings,
)

FORMAT_VERSION = 1
FILE_NAME = "metadata-snapshot.json"  # in the data folder
_OWNER_ONLY = 0o600


class Snapshot(msgspec.Struct, kw_only=True):
    """All settings as they were at `read_at_ms`."""

    format_version: int = FORMAT_VERSION
    source: str
    version: int
    read_at_ms: int
    topics: dict[str, TopicSettings]
    groups: dict[str, GroupSettings]
    producer_groups: dict[str, ProducerGroupSettings] = {}
    endpoints: dict[str, EndpointSettings] = {}
    keys: dict[str, KeySettings] = {}
    namespaces: dict[str, NamespaceSettings] = {}
    limits: dict[str, dict[str, float]]


def load(path: Path, source: str) -> Snapshot | None:
    """The snapshot of this database, None if there is no file.

    Raises SnapshotUnusable for a file that cannot be read or is of another
    database or format.
    """
    try:
        snapshot = msgspec.json.decode(path.read_bytes(), type=Snapshot)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise SnapshotUnusable(str(path), str(error)) from error
    if snapshot.format_version != FORMAT_VERSION:
        reason = f"it has format version {snapshot.format_version}"
        raise SnapshotUnusable(str(path), reason)
    if snapshot.source != source:
        raise SnapshotUnusable(str(path), f"it is of {snapshot.source}, not {source}")
    return snapshot


def save(path: Path, snapshot: Snapshot) -> None:
    """Replace the file; after a crash it is the old one or the new one, whole."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    beside.unlink(missing_ok=True)  # or it would keep the mode that it has
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(os.open(beside, flags, _OWNER_ONLY), "wb") as file:
        file.write(msgspec.json.encode(snapshot))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
