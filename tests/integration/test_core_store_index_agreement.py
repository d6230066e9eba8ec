"""One state machine drives the index's model and RocksDB: they always agree."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from halfpast_core_store.memory_index import MemoryIndex
from halfpast_core_store.ports import Index
from halfpast_core_store.rocks_index import RocksIndex

# Few bytes, so that keys meet, are prefixes of each other, and stand at the edges.
keys = st.binary(min_size=1, max_size=3).map(
    lambda key: bytes(b"\x00Aa\xff"[byte % 4] for byte in key)
)
values = st.binary(max_size=5)
changes = st.lists(st.tuples(keys, st.none() | values), max_size=6)
limits = st.integers(0, 5)


class IndexAgreement(RuleBasedStateMachine):
    """The model, the real one, and the same steps for both."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="halfpast-index-"))
        self.memory = MemoryIndex()
        self.rocks = self.open()

    def open(self) -> RocksIndex:
        return RocksIndex(self.folder, write_buffer=1 << 20, cache=1 << 20)

    def teardown(self) -> None:
        self.rocks.close()
        shutil.rmtree(self.folder)

    def same(self, ask: Callable[[Index], object]) -> None:
        assert ask(self.memory) == ask(self.rocks)

    @rule(changes=changes)
    def write(self, changes: list[tuple[bytes, bytes | None]]) -> None:
        for index in (self.memory, self.rocks):
            batch = index.batch()
            for key, value in changes:
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)
            index.write(batch)

    @rule(key=keys)
    def get(self, key: bytes) -> None:
        self.same(lambda index: index.get(key))

    @rule(wanted=st.lists(keys, max_size=4))
    def get_many(self, wanted: list[bytes]) -> None:
        self.same(lambda index: list(index.get_many(wanted)))

    @rule(start=keys, end=keys, limit=limits)
    def scan(self, start: bytes, end: bytes, limit: int) -> None:
        self.same(lambda index: index.scan(start, end, limit))

    @rule(start=keys, end=keys, limit=limits)
    def scan_keys(self, start: bytes, end: bytes, limit: int) -> None:
        self.same(lambda index: index.scan_keys(start, end, limit))

    @rule(start=keys, floor=keys, limit=limits)
    def scan_back(self, start: bytes, floor: bytes, limit: int) -> None:
        self.same(lambda index: index.scan_back(start, floor, limit))

    @rule()
    def flush(self) -> None:
        self.memory.flush()
        self.rocks.flush()

    @rule()
    def flush_and_restart(self) -> None:
        self.memory.flush()
        self.rocks.flush()
        self.memory = self.memory.crash(0)
        self.rocks.close()
        self.rocks = self.open()

    @invariant()
    def everything_is_the_same(self) -> None:
        self.same(lambda index: index.scan(b"\x00", b"\xff\xff\xff\xff", 1000))


TestIndexAgreement = IndexAgreement.TestCase
TestIndexAgreement.settings = settings(max_examples=25, stateful_step_count=25)
