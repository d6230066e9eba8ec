"""A store's log with an audit load in it, written by the store itself.

Frames are appended as the broker does it, one behind the other, with the index and
the durable mark; only that nobody asks for them over HTTP. With a clock of its own the
log tells of hours and is written in a minute.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from halfpast_core_store.broker import Append, Run
from halfpast_core_store.config import MIB, LogConfig, StoreConfig
from halfpast_core_store.durable_mark import NAME, DurableMark, encode_mark
from halfpast_core_store.folder import FolderLock, open_manifest
from halfpast_core_store.pending import Answer
from halfpast_core_store.real_clock import RealRng
from halfpast_core_store.real_disk import RealDisk
from halfpast_core_store.rocks_index import RocksIndex
from halfpast_core_store.store import Store
from halfpast_core_store.topics import SYS_TOPICS
from halfpast_loadtest.audit_load import AuditLoad, AuditLoadConfig
from halfpast_loadtest.errors import LoadtestError

SEGMENT_SIZE = 64 * MIB
TOPIC_COUNT = 12
QUEUE_COUNT = 4


class SetClock:
    """Tells the time that it is set to."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def now_ns(self) -> int:
        return self.now_ms * 1_000_000

    def monotonic_ns(self) -> int:
        return self.now_ns()


class AuditLog:
    """One store, held by this process. A context."""

    def __init__(
        self,
        folder: Path,
        *,
        start_ms: int,
        rate_per_s: int,
        body_bytes: int = 200,
        frame_ms: int = 100,
    ) -> None:
        self._folder = folder
        self._lock = FolderLock(folder, "broker")
        self._clock = SetClock(start_ms - start_ms % frame_ms)
        self._salt = open_manifest(folder, RealRng()).salt
        config = StoreConfig(
            log=LogConfig(segment_size=SEGMENT_SIZE, frame_size=16 * MIB)
        )
        self._index = RocksIndex(
            folder / "index",
            write_buffer=config.index_write_buffer,
            cache=config.index_cache,
        )
        disk = RealDisk(folder / "log")
        self._store = Store(
            disk, self._index, self._clock, RealRng(), config, self._salt
        )
        self._store.open()
        topics = [self._topic(f"bench-topic-{n}") for n in range(TOPIC_COUNT)]
        self.load = AuditLoad(
            AuditLoadConfig(
                topic_ids=topics,
                queues=QUEUE_COUNT,
                rate_per_s=rate_per_s,
                body_bytes=body_bytes,
                frame_ms=frame_ms,
            )
        )
        self.frame_ms = frame_ms
        self.closed_books: Counter[str] = Counter()
        """The books of the segments that are closed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._store.flush(self._store.log.durable_end)
        self._store.close()
        self._index.close()
        self._lock.close()

    @property
    def end(self) -> int:
        """How far the log is durable."""
        return self._store.log.durable_end

    def write(self, count: int, tell: Callable[[int], None]) -> None:
        """Write until the closed segments hold so many records. The time in the log
        goes on by itself."""
        books = self.load.books
        while self.closed_books["records"] < count:
            before = Counter(books)
            segments = len(self._store.log.segments)
            self.append(self._clock.now_ms + self.frame_ms)
            if len(self._store.log.segments) > segments:
                self.closed_books = before
                self._store.flush(self.end)
            tell(books["records"])
        self.publish()

    def append(self, now_ms: int) -> int:
        """One frame, stored at this time; gives where it begins."""
        self._clock.now_ms = now_ms
        return self._append(self.load.runs(now_ms))

    def publish(self) -> None:
        """Mark what is durable, as the broker does ten times a second."""
        mark = DurableMark(self.end, self._clock.now_ms)
        (self._folder / NAME).write_bytes(encode_mark(mark, self._salt))

    def _append(self, runs: list[Run]) -> int:
        answers: list[Answer] = []
        store = self._store
        store.submit(Append(runs), answers.append)
        sealed = store.seal()
        assert sealed is not None
        store.write(sealed)
        store.complete(sealed)
        (answer,) = answers
        if isinstance(answer, Exception):
            raise LoadtestError(f"the store refuses a frame: {answer}") from answer
        return answer.position

    def _topic(self, name: str) -> int:
        record = self._store.registry.draft_topic(name, QUEUE_COUNT, 0)
        assert record is not None
        self._append([Run(SYS_TOPICS, 0, [record])])
        known = self._store.registry.topic(name)
        assert known is not None
        return known.id
