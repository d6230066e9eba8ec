"""One state machine drives the disk's model and a real folder: they always agree."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from halfpast_core_store.mapped_pages import AROUND_SIZE, RESIDENT_SIZE_MAX
from halfpast_core_store.memory_disk import MemoryDisk
from halfpast_core_store.ports import Disk, File
from halfpast_core_store.real_disk import RealDisk, RealFile, write_rest

SIZE = 6000
names = st.sampled_from(["a", "b", "c"])
places = st.integers(0, SIZE)


class DiskAgreement(RuleBasedStateMachine):
    """The model, the real one, and the same steps for both."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="halfpast-disk-"))
        self.memory = MemoryDisk()
        self.real = RealDisk(self.folder)
        self.files: dict[str, tuple[File, File]] = {}

    def teardown(self) -> None:
        self.close_all()
        shutil.rmtree(self.folder)

    def close_all(self) -> None:
        for pair in self.files.values():
            for file in pair:
                file.close()
        self.files = {}

    def same(self, name: str, ask: Callable[[File], object]) -> None:
        memory, real = self.files[name]
        assert ask(memory) == ask(real)

    @rule(name=names)
    def create_or_open(self, name: str) -> None:
        if name in self.files:
            return
        known = name in self.memory.names()

        def get(disk: Disk) -> File:
            return disk.open(name) if known else disk.create(name, SIZE)

        self.files[name] = get(self.memory), get(self.real)

    @rule(name=names)
    def open_what_is_not_there(self, name: str) -> None:
        if name not in self.memory.names():
            disks: tuple[Disk, ...] = (self.memory, self.real)
            for disk in disks:
                with pytest.raises(FileNotFoundError):
                    disk.open(name)

    @precondition(lambda self: self.files)
    @rule(
        data=st.data(),
        offset=places,
        parts=st.lists(st.binary(max_size=700), max_size=4),
    )
    def write(self, data: st.DataObject, offset: int, parts: list[bytes]) -> None:
        offset = min(offset, SIZE - sum(map(len, parts)))
        for file in self.files[data.draw(st.sampled_from(sorted(self.files)))]:
            file.write(offset, parts)

    @precondition(lambda self: self.files)
    @rule(data=st.data(), start=places, end=places)
    def read(self, data: st.DataObject, start: int, end: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.files)))
        self.same(name, lambda file: file.read(start, max(start, end)))

    @precondition(lambda self: self.files)
    @rule(data=st.data(), offset=places)
    def skip_to_data(self, data: st.DataObject, offset: int) -> None:
        # Either may be careful and stop early; what they skip must be zeroes.
        name = data.draw(st.sampled_from(sorted(self.files)))
        for file in (self.memory.open(name), self.real.open(name)):
            found = file.next_data(offset)
            end = SIZE if found is None else found
            assert end >= offset
            assert not any(file.read(offset, end))
            file.close()

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def sync(self, data: st.DataObject) -> None:
        for file in self.files[data.draw(st.sampled_from(sorted(self.files)))]:
            file.sync()

    @rule(name=names)
    def delete(self, name: str) -> None:
        for file in self.files.pop(name, ()):
            file.close()
        self.memory.delete(name)
        self.real.delete(name)

    @rule()
    def restart(self) -> None:
        self.close_all()
        self.memory = self.memory.crash(lambda _: True)
        self.real = RealDisk(self.folder)

    @invariant()
    def names_and_sizes_are_the_same(self) -> None:
        assert self.memory.names() == self.real.names()
        for name in self.files:
            self.same(name, lambda file: file.size)
            self.same(name, lambda file: file.read(0, SIZE))


TestDiskAgreement = DiskAgreement.TestCase
TestDiskAgreement.settings = settings(max_examples=50, stateful_step_count=20)


# --- what only the real one has -------------------------------------------------


def test_a_creation_that_a_crash_cut_short_is_cleared_away(tmp_path: Path) -> None:
    (tmp_path / "x.seg.new").write_bytes(b"half")
    disk = RealDisk(tmp_path)
    assert disk.names() == []


def test_many_parts_are_written_in_order(tmp_path: Path) -> None:
    file = RealDisk(tmp_path).create("f", 10_000)
    parts = [b"%04d" % i for i in range(2000)]  # more than the kernel takes at once
    file.write(8, parts)
    assert file.read(8, 8008) == b"".join(parts)
    file.close()


def test_a_short_write_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RealDisk(tmp_path).create("f", 1000)

    def lazy(fd: int, parts: list[bytes], offset: int) -> int:
        write_rest(fd, offset, parts[0][:3])
        return 3

    monkeypatch.setattr("os.pwritev", lazy)
    file.write(10, [b"abcdef", b"", b"ghi"])
    assert file.read(10, 19) == b"abcdefghi"
    file.close()


def test_a_new_file_is_allocated_not_sparse(tmp_path: Path) -> None:
    file = RealDisk(tmp_path).create("f", 1 << 20)
    assert (tmp_path / "f").stat().st_blocks * 512 >= 1 << 20
    assert file.next_data(0) is None or not any(file.read(0, 1 << 20))
    file.close()


def test_a_disk_tells_its_room(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    assert 0 <= disk.free_bytes() <= disk.total_bytes()


def test_writes_are_seen_through_every_handle(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    writer = disk.create("f", 100)
    reader = RealFile(tmp_path / "f")
    writer.write(50, [b"x"])
    assert reader.read(50, 51) == b"x"
    writer.close()
    reader.close()


def resident_size(folder: Path) -> int:
    """Bytes of this process's memory that are pages of files in a folder."""
    total, is_there = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            is_there = line.endswith(
                tuple(path.name for path in folder.iterdir())
            ) and (str(folder) in line)
        elif is_there and words[0] == "Rss:":
            total += int(words[1]) * 1024
    return total


def test_what_was_read_does_not_stay_in_memory(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    files = [disk.create(name, 2 * RESIDENT_SIZE_MAX) for name in ("a", "b")]
    for file in files:
        file.write(5_000_000, [b"here"])
    highest = 0
    for start in range(0, 2 * RESIDENT_SIZE_MAX, 16_384):
        for file in files:
            file.read(start, start + 16_384)
        if start % (1 << 20) == 0:
            highest = max(highest, resident_size(tmp_path))
    assert 0 < highest <= 2 * RESIDENT_SIZE_MAX
    for file in files:
        assert file.read(5_000_000, 5_000_004) == b"here"
        file.close()


def test_a_closed_file_is_left_alone_by_those_that_are_read(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    gone, kept = disk.create("gone", 1 << 20), disk.create("kept", 1 << 20)
    gone.read(0, 100)
    gone.close()
    for _ in range(2 * RESIDENT_SIZE_MAX // AROUND_SIZE):
        kept.read(0, 100)
    kept.close()
