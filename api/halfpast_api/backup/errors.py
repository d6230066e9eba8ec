"""Why a backup or a restore cannot go on, as one tree. `hint` says what to try.

BackupError
├── NotAStore         there is no data folder to back up
├── OtherStore        the backup folder holds the backups of another store
├── WrongPlace        the data folder and the backup folder lie in each other
├── BackupBusy        somebody else writes to the backup folder
├── NoBackup          there is no such backup
├── DamagedBackup     files of a backup are missing or not what they were
├── NotEmpty          the folder to restore into holds something already
├── IndexMoves        an index changed faster than it could be looked at
└── NoHorizon         the broker does not tell how far its log is durable
"""


class BackupError(Exception):
    """Base of these errors."""

    hint = ""


class NotAStore(BackupError):
    """There is nothing to back up."""

    hint = "give the folder of a server that has been started once: --data FOLDER"

    def __init__(self, folder: str, why: str) -> None:
        super().__init__(folder, why)
        self.folder = folder
        self.why = why

    def __str__(self) -> str:
        return f"{self.folder} is no data folder: {self.why}"


class OtherStore(BackupError):
    """Backups of two stores would be mixed up."""

    hint = "give each store a backup folder of its own"

    def __init__(self, folder: str, found: str, wanted: str) -> None:
        super().__init__(folder, found, wanted)
        self.folder = folder
        self.found = found
        self.wanted = wanted

    def __str__(self) -> str:
        return (
            f"{self.folder} holds backups of the store {self.found}, "
            f"not of {self.wanted}"
        )


class WrongPlace(BackupError):
    """A backup within what is backed up would go with it."""

    hint = "give a folder elsewhere, best on another disk"

    def __init__(self, folder: str, data: str) -> None:
        super().__init__(folder, data)
        self.folder = folder
        self.data = data

    def __str__(self) -> str:
        return f"{self.folder} and {self.data} lie in each other"


class BackupBusy(BackupError):
    """One at a time."""

    hint = "wait until it has ended"

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.folder = folder

    def __str__(self) -> str:
        return f"another backup is being written to {self.folder}, or read from it"


class NoBackup(BackupError):
    """There is none, or none of this name."""

    def __init__(self, folder: str, name: str = "") -> None:
        super().__init__(folder, name)
        self.folder = folder
        self.name = name
        self.hint = (
            f"see which there are: halfpast backup list {folder}"
            if name
            else "make one: halfpast backup --data DATA --to FOLDER"
        )

    def __str__(self) -> str:
        what = f"no backup {self.name}" if self.name else "no finished backup"
        return f"there is {what} in {self.folder}"


class DamagedBackup(BackupError):
    """`files` are the paths, as in the data folder, of what cannot be trusted."""

    def __init__(self, name: str, files: list[str]) -> None:
        super().__init__(name, files)
        self.name = name
        self.files = files
        self.hint = (
            "take another one with --backup ID; 'halfpast backup --full' replaces "
            "what is damaged from a data folder that is still there"
        )

    def __str__(self) -> str:
        return f"the backup {self.name} is damaged: {', '.join(self.files)}"


class NotEmpty(BackupError):
    """Nothing is ever overwritten."""

    hint = "move what is there away, or give another folder: --data FOLDER"

    def __init__(self, folder: str, found: str) -> None:
        super().__init__(folder, found)
        self.folder = folder
        self.found = found

    def __str__(self) -> str:
        return f"{self.folder} is not empty: it holds {self.found}"


class IndexMoves(BackupError):
    """Each time the index was looked at, files had gone meanwhile."""

    hint = "try again; if it stays so, see 'halfpast doctor'"

    def __init__(self, folder: str, why: str) -> None:
        super().__init__(folder, why)
        self.folder = folder
        self.why = why

    def __str__(self) -> str:
        return f"no whole copy of {self.folder} could be taken: {self.why}"


class NoHorizon(BackupError):
    """The broker holds the folder, and its mark stands still."""

    hint = "see whether the broker is well: halfpast doctor"

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.folder = folder

    def __str__(self) -> str:
        return f"the broker on {self.folder} does not tell how far its log is durable"
