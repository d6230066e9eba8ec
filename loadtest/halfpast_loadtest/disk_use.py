"""How much of a disk a folder takes, and whether there is room for it beforehand."""

import os
import shutil
import tempfile
from pathlib import Path

from halfpast_loadtest.errors import NotEnoughRoom

BLOCK_SIZE = 512  # the unit of st_blocks, whatever the file system's own is


def need_room(folder: str, needed: int) -> None:
    """Raises NotEnoughRoom unless so many bytes are free there (empty: the folder
    for temporary files)."""
    where = folder or tempfile.gettempdir()
    free = shutil.disk_usage(where).free
    if free < needed:
        raise NotEnoughRoom(where, needed, free)


def allocated_mb(folder: Path) -> float:
    """What its files take on the disk, with the room that is kept for them."""
    blocks = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                blocks += os.lstat(os.path.join(path, name)).st_blocks
            except FileNotFoundError:  # compacted away meanwhile
                continue
    return blocks * BLOCK_SIZE / 1e6


def allocated_by_folder_mb(data: Path) -> dict[str, float]:
    """The same for each folder of a data folder."""
    return {
        folder.name: round(allocated_mb(folder), 1)
        for folder in sorted(data.iterdir())
        if folder.is_dir() and folder.name != "run"
    }
