"""Moving the bytes of one file: hashed on the way, holes where there are zeroes."""

import hashlib
import os

from halfpast_api.backup.watch import Watch

PIECE_SIZE = 1024 * 1024
_ZEROES = bytes(PIECE_SIZE)


def copy_bytes(source: int, target: int | None, size: int, watch: Watch) -> str:
    """The first `size` bytes of one descriptor into a new file; gives their SHA-256.

    Without a target they are only read. A source that is shorter gives the hash of
    what there is. The target is durable afterwards.
    """
    digest = hashlib.sha256()
    at = 0
    while at < size:
        piece = os.pread(source, min(PIECE_SIZE, size - at), at)
        if not piece:
            break
        digest.update(piece)
        if target is not None and piece != _ZEROES[: len(piece)]:
            _write_all(target, piece, at)
        at += len(piece)
        watch.moved(len(piece))
    if target is not None:
        os.ftruncate(target, at)
        os.fsync(target)
    return digest.hexdigest()


def _write_all(target: int, piece: bytes, at: int) -> None:
    written = os.pwrite(target, piece, at)
    while written < len(piece):
        written += os.pwrite(target, piece[written:], at + written)
