"""The memory of a stream in files, a few spans of it at a time.

    <folder>/memory.json             what counts: names, and each span's file
    <folder>/<span>-<position>.bin   rows of `live_memory.py`, table by table

The longest unsaved spans are written first, as many as `budget_bytes` allow, so that
no batch waits for all of them. The list is replaced in one step; what it does not name
is deleted. A death between loses nothing: the log from `replay_from` on tells the rest.
"""

import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from .live_memory import KINDS, PIECE_MS, LiveMemory, Piece

NAME = "memory.json"
FORMAT = 1
BUDGET_BYTES = 8 * 1024 * 1024


class LiveSaves:
    """The files of one stream, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[int, dict[str, Any]] = {}

    def load(self) -> LiveMemory | None:
        """What was saved; None if there is nothing, or it is not whole: then the log
        has to tell all of it."""
        try:
            told = json.loads((self._folder / NAME).read_text(encoding="utf-8"))
            if (told["format"], told["piece_ms"]) != (FORMAT, PIECE_MS):
                return None
            memory = LiveMemory(position=int(told["replay_from"]))
            memory.names.topics = {int(it): name for it, name in told["topics"].items()}
            memory.names.groups = [str(name) for name in told["groups"]]
            for span, entry in told["spans"].items():
                piece = self._read(entry)
                if piece is None:
                    return None
                memory.pieces[int(span)] = piece
                self._known[int(span)] = entry
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return memory

    def save(self, memory: LiveMemory, budget_bytes: int = BUDGET_BYTES) -> None:
        """Write what has been changed longest ago. Raises OSError."""
        changed = [
            (piece.changed_at, span)
            for span, piece in memory.pieces.items()
            if piece.changed_at is not None
        ]
        self._folder.mkdir(parents=True, exist_ok=True)
        for _, span in sorted(changed):
            piece = memory.pieces[span]
            self._known[span] = self._write(span, piece, memory.position)
            piece.changed_at = None
            budget_bytes -= piece.size_bytes
            if budget_bytes <= 0:
                break
        for span in self._known.keys() - memory.pieces.keys():
            del self._known[span]
        self._list(memory)
        self._delete_others()

    def _write(self, span: int, piece: Piece, position: int) -> dict[str, Any]:
        name = f"{span}-{position}.bin"
        checksum = 0
        with (self._folder / name).open("wb") as file:
            for kind in KINDS:
                data = piece.tables[kind].view(np.uint8).data
                checksum = zlib.crc32(data, checksum)
                file.write(data)
        counts = {kind: len(table) for kind, table in piece.tables.items()}
        return {"file": name, "counts": counts, "crc": checksum}

    def _read(self, entry: dict[str, Any]) -> Piece | None:
        data = (self._folder / entry["file"]).read_bytes()
        if zlib.crc32(data) != entry["crc"]:
            return None
        at = 0
        tables: dict[str, Any] = {}
        for kind, dtype in KINDS.items():
            count = int(entry["counts"][kind])
            tables[kind] = np.frombuffer(data, dtype, count, at).copy()
            at += count * dtype.itemsize
        return Piece(tables, int(entry["position"]), None)

    def _list(self, memory: LiveMemory) -> None:
        begun = [
            piece.changed_at
            for piece in memory.pieces.values()
            if piece.changed_at is not None
        ]
        spans: dict[str, Any] = {}
        for span, entry in self._known.items():
            piece = memory.pieces[span]
            position = piece.changed_at
            if position is None:
                position = max(memory.position, piece.position)
            spans[str(span)] = {**entry, "position": position}
        told = {
            "format": FORMAT,
            "piece_ms": PIECE_MS,
            "replay_from": min(begun, default=memory.position),
            "topics": memory.names.topics,
            "groups": memory.names.groups,
            "spans": spans,
        }
        new = self._folder / f"{NAME}.tmp"
        new.write_text(json.dumps(told), encoding="utf-8")
        os.replace(new, self._folder / NAME)

    def _delete_others(self) -> None:
        named = {entry["file"] for entry in self._known.values()}
        for path in self._folder.glob("*.bin"):
            if path.name not in named:
                path.unlink(missing_ok=True)
