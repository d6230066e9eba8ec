"""The names of topics and groups in the store's index, as it was flushed last."""

import logging
from pathlib import Path
from typing import Any

from halfpast_core_store import keys

INDEX_TRIES = 3
log = logging.getLogger("halfpast.spark")


def read_index_names(
    folder: Path, topics: dict[int, str], groups: dict[int, str]
) -> int:
    """Enter the names; gives the position up to which the index knows the log.

    0, with nothing entered, where there is no index or it cannot be read: then the log
    has to tell them. The broker may compact the index while it is read, so a failed
    look is taken again.
    """
    if not (folder / "CURRENT").exists():
        return 0
    failure: Exception | None = None
    for _ in range(INDEX_TRIES):
        try:
            return _read(folder, topics, groups)
        except Exception as error:  # RocksDB's have no type of their own
            failure = error
    log.warning("the store's index cannot be read, so the log must tell: %s", failure)
    return 0


def _read(folder: Path, topics: dict[int, str], groups: dict[int, str]) -> int:
    from rocksdict import AccessType, Options, Rdict

    access = AccessType.read_only(error_if_log_file_exist=False)
    database = Rdict(str(folder), Options(raw_mode=True), access_type=access)
    try:
        value: bytes | None = database.get(keys.APPLIED)
        found_topics = _names(database, b"t")
        found_groups = _names(database, b"g")
    finally:
        database.close()
    if value is None:
        return 0
    topics.update(found_topics)
    groups.update(found_groups)
    return int(keys.PROGRESS.unpack(value)[1])


def _names(database: Any, family: bytes) -> dict[int, str]:
    found: dict[int, str] = {}
    iterator = database.iter()
    iterator.seek(family)
    while iterator.valid() and iterator.key().startswith(family):
        number = int(keys.BY_ID.unpack(iterator.key())[1])
        found[number] = bytes(iterator.value()).decode(errors="replace")
        iterator.next()
    iterator.status()  # raises if an error ended it
    return found
