"""The store on a real data folder: its disk, its RocksDB and the machine's clock."""

from pathlib import Path

from .config import StoreConfig
from .folder import open_manifest
from .ports import Clock
from .real_clock import RealClock, RealRng
from .real_disk import RealDisk
from .rocks_index import RocksIndex
from .store import Store


def open_store(
    folder: Path, config: StoreConfig, clock: Clock | None = None
) -> tuple[Store, RocksIndex]:
    """The store of a folder, recovered. The caller holds the folder's lock."""
    rng = RealRng()
    manifest = open_manifest(folder, rng)
    index = RocksIndex(
        folder / "index",
        write_buffer=config.index_write_buffer,
        cache=config.index_cache,
    )
    try:
        disk = RealDisk(folder / "log")
        store = Store(disk, index, clock or RealClock(), rng, config, manifest.salt)
        store.open()
    except BaseException:
        index.close()
        raise
    return store, index
