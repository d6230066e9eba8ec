"""What can go wrong in the audits, as one tree.

    AuditError
    ├── BadOption           an option that is not known, or a value that it cannot have
    ├── NoStore             there is no data folder at this path
    ├── ExportBusy          another process exports into the same folder
    ├── ArrowMissing        PyArrow or NumPy is not installed
    └── ForeignExport       the folder holds another store's export, or something else

A folder of a newer format, or one that holds something else, raises what the store
raises for it (`halfpast_core_store.errors.NewerFormat`, `ForeignFolder`). Arguments
are plain values, so that an error survives its way from Spark's workers.
"""


class AuditError(Exception):
    """Base of all errors of the audits; its text says what to do."""


class BadOption(AuditError):
    """An option that is not known, or a value that it cannot have."""

    def __init__(self, name: str, value: str, why: str) -> None:
        super().__init__(name, value, why)
        self.name = name
        self.value = value
        self.why = why

    def __str__(self) -> str:
        return f"the option {self.name!r} cannot be {self.value!r}: {self.why}"


class NoStore(AuditError):
    """There is no data folder at this path, on this machine."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return (
            f"{self.path} is no data folder of Halfpast: it has no halfpast.json. Give "
            "the folder that --data names, at a path that all Spark workers see"
        )


class ExportBusy(AuditError):
    """Another process exports into this folder."""

    def __init__(self, folder: str, holder: str) -> None:
        super().__init__(folder, holder)
        self.folder = folder
        self.holder = holder

    def __str__(self) -> str:
        return f"{self.folder} is in use by {self.holder}: one exporter at a time"


class ArrowMissing(AuditError):
    """The libraries that the log is read with are an extra."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"reading the log as a table needs PyArrow and NumPy ({self.reason}): "
            "pip install 'halfpast[audit]'"
        )


class ForeignExport(AuditError):
    """The folder holds something that this export must not mix with."""

    def __init__(self, folder: str, why: str) -> None:
        super().__init__(folder, why)
        self.folder = folder
        self.why = why

    def __str__(self) -> str:
        return f"{self.folder} cannot take this export: {self.why}; give another folder"
