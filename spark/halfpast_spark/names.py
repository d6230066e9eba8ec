"""What the numbers of topics and consumer groups are called.

The log tells names once, when something is created; retention may have deleted that,
and then the store's index is the only place that has them. So both are asked: the
index as it was flushed last, and the log from there on. The index is opened for
reading only, which does not disturb the broker that has it open.
"""

from dataclasses import dataclass, field

from halfpast_core_store.frame import HEADER_SIZE, LENGTH, RUN, RUN_SIZE
from halfpast_core_store.record import Family, RecordKind, decode_record
from halfpast_core_store.topics import SYS_TOPICS, SYSTEM_TOPICS

from .index_names import read_index_names
from .log_file import Chunk, Frame, LogFile
from .log_folder import LogFolder


@dataclass(slots=True)
class Names:
    """Names by number. Those of the system topics are always there."""

    topics: dict[int, str] = field(
        default_factory=lambda: {number: name for name, number in SYSTEM_TOPICS.items()}
    )
    groups: dict[int, str] = field(default_factory=dict[int, str])

    def topic(self, number: int) -> str:
        """`#1024` where nobody knows the name: no topic can be called so."""
        return self.topics.get(number) or (f"#{number}" if number else "")

    def group(self, number: int) -> str:
        return self.groups.get(number) or f"#{number}"


class NameReader:
    """Reads names, and goes on where it has come to."""

    def __init__(self, folder: LogFolder) -> None:
        self._folder = folder
        self._position = 0
        self._is_begun = False
        self.names = Names()

    def read_until(self, position: int) -> Names:
        """All names that the log uses before `position`."""
        if not self._is_begun:
            self._position = read_index_names(
                self._folder.path / "index", self.names.topics, self.names.groups
            )
            self._is_begun = True
        for segment in self._folder.segments():
            if segment.end <= self._position or segment.base >= position:
                continue
            start = max(self._position, segment.base)
            try:
                with LogFile(segment.path, segment.base, self._folder.salt) as file:
                    self._read_file(file, start, min(position, segment.end))
            except FileNotFoundError:
                continue  # the index had what it told
        self._position = max(self._position, position)
        return self.names

    def _read_file(self, file: LogFile, start: int, end: int) -> None:
        for chunk in file.chunks(start, end):
            if isinstance(chunk, Chunk):
                for frame in chunk.frames:
                    if frame.flags & Family.REGISTRY:
                        self._read_frame(chunk.data, frame)

    def _read_frame(self, data: bytes, frame: Frame) -> None:
        directory_at = frame.at + HEADER_SIZE
        at = directory_at + RUN_SIZE * frame.run_count
        for i in range(frame.run_count):
            run = RUN.unpack_from(data, directory_at + RUN_SIZE * i)
            topic_id, size = run[0], run[4]
            if topic_id == SYS_TOPICS:
                self._read_run(data, at, at + size)
            at += size

    def _read_run(self, data: bytes, at: int, end: int) -> None:
        while at < end:
            record = decode_record(data, at)
            name = record.key.decode(errors="replace")
            if record.kind == RecordKind.TOPIC:
                self.names.topics[record.topic_id] = name
            elif record.kind == RecordKind.GROUP:
                self.names.groups[record.group_id] = name
            at += LENGTH.unpack_from(data, at)[0]
