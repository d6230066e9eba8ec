"""Everything that can go wrong with the metadata, as one tree.

    MetadataError
    ├── MetadataUnavailable   the database does not answer: the cache goes on
    ├── StaleVersion          somebody else changed it first
    ├── InvalidSettings       a value outside of what is allowed
    ├── UnsupportedUrl        not a database that this release can use
    ├── NewerSchema           the database was written by a newer release
    ├── MigrationFailed       the database refused a step; nothing was changed
    ├── MigrationsMissing     this installation lacks its alembic scripts
    └── SnapshotUnusable      the snapshot file of the cache cannot be read

`code` is the stable word that the HTTP API shows. No text holds a password.
"""

from typing import ClassVar


class MetadataError(Exception):
    """Base of all errors of the metadata store."""

    code: ClassVar[str] = "metadata_error"


class MetadataUnavailable(MetadataError):
    """The database does not answer. Retry; a write may still have happened."""

    code = "metadata_unavailable"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the metadata database is unavailable: {self.reason}"


class StaleVersion(MetadataError):
    """The entry is at version `actual` (None: there is none), not at `expected`.

    `expected` is 0 where the caller wanted to create it. Nothing was changed.
    """

    code = "stale_version"

    def __init__(self, name: str, expected: int, actual: int | None) -> None:
        super().__init__(name, expected, actual)
        self.name = name
        self.expected = expected
        self.actual = actual

    def __str__(self) -> str:
        if self.actual is None:
            return f"{self.name} does not exist, so it has no version {self.expected}"
        if self.expected == 0:
            return f"{self.name} exists already, at version {self.actual}"
        return f"{self.name} is at version {self.actual}, not {self.expected}"


class InvalidSettings(MetadataError):
    """The value of `field` is not allowed; `detail` says what is."""

    code = "invalid_settings"

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(field, detail)
        self.field = field
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.field} {self.detail}"


class UnsupportedUrl(MetadataError):
    """The URL names no database that can hold the metadata."""

    code = "unsupported_url"

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.url} cannot hold the metadata: {self.reason}; "
            "give sqlite:///path/to/metadata.sqlite or postgresql://host/database"
        )


class NewerSchema(MetadataError):
    """The database is at a revision that this release does not know."""

    code = "newer_schema"

    def __init__(self, url: str, revision: str, head: str) -> None:
        super().__init__(url, revision, head)
        self.url = url
        self.revision = revision
        self.head = head

    def __str__(self) -> str:
        return (
            f"the metadata database {self.url} is at revision {self.revision}, and "
            f"this release knows revisions up to {self.head} only: a newer release "
            "has upgraded it. Nothing was changed. Start that release or a newer "
            "one, or restore the backup of the database from before the upgrade"
        )


class MigrationFailed(MetadataError):
    """The database refused to be upgraded and is as it was before."""

    code = "migration_failed"

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"the metadata database {self.url} cannot be upgraded (it is as it was "
            f"before): {self.reason}"
        )


class MigrationsMissing(MetadataError):
    """The alembic scripts are in none of the `places` where they should be."""

    code = "migrations_missing"

    def __init__(self, places: tuple[str, ...]) -> None:
        super().__init__(places)
        self.places = places

    def __str__(self) -> str:
        return (
            "the migration scripts are missing, looked for in "
            f"{' and '.join(self.places)}; install Halfpast again"
        )


class SnapshotUnusable(MetadataError):
    """The snapshot file exists and cannot be used."""

    code = "snapshot_unusable"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"the metadata snapshot {self.path} is not used: {self.reason}"
