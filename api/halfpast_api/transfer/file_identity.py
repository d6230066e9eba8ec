"""Which file it is that is imported: names can be given to other files."""

import os
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

_HEAD_SIZE: Final = 1024 * 1024
_DIGEST_LENGTH: Final = 32


class FileIdentity(msgspec.Struct, frozen=True):
    """Equal for the same content, and for nothing else that happens by accident."""

    size: int
    modified_ns: int
    head_sha256: str

    @classmethod
    def of(cls, file: BinaryIO) -> "FileIdentity":
        """Reads the first MiB, and leaves the file at its beginning."""
        status = os.fstat(file.fileno())
        file.seek(0)
        head = sha256(file.read(_HEAD_SIZE)).hexdigest()
        file.seek(0)
        return cls(status.st_size, status.st_mtime_ns, head)

    def still_holds(self, path: Path) -> bool:
        """Whether nobody has written to it since, as far as its times tell."""
        try:
            status = path.stat()
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns) == (self.size, self.modified_ns)

    def key_prefix(self, *more: str) -> str:
        """What the idempotency keys of an import begin with. `more` is what else
        decides which events it makes."""
        parts = [str(self.size), str(self.modified_ns), self.head_sha256, *more]
        digest = sha256("\0".join(parts).encode()).hexdigest()
        return f"import-{digest[:_DIGEST_LENGTH]}"
