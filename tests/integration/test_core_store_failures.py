"""What the world does to a broker: damage, full disks, failed syncs, other folders."""

import asyncio
import errno
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.core_store_rig import MIB, SMALL, Rig, bodies, open_rig

from halfpast_core_store.broker import Append, Lane, Pop, Run, Settle, SettleAction
from halfpast_core_store.errors import (
    CorruptLog,
    FolderInUse,
    ForeignFolder,
    LogBehindIndex,
    NewerFormat,
    StoreFailed,
    StoreFull,
)
from halfpast_core_store.real_disk import RealFile
from halfpast_core_store.rocks_index import RocksIndex
from halfpast_core_store.service import BrokerService


async def filled(folder: Path) -> Path:
    """A data folder in which ten frames were stored; closed."""
    async with open_rig(folder, False) as rig:
        for i in range(10):
            await rig.publish(b"%d" % i)
    return folder / "data"


def flip(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


def segment(folder: Path) -> Path:
    return folder / "log" / f"{0:020d}.seg"


async def consumed(folder: Path) -> list[bytes]:
    """Everything in the folder, as a new group gets it."""
    service = await BrokerService.open(folder, SMALL)
    try:
        popped = await service.pop(Pop("fresh", "orders", 1000))
        return bodies(popped.messages)
    finally:
        await service.close()


# --- folders --------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    async with open_rig(tmp_path, False) as rig:
        with pytest.raises(FolderInUse, match=f"process {os.getpid()}"):
            await BrokerService.open(rig.folder / "data", SMALL)
        await rig.publish(b"still here")


@pytest.mark.asyncio
async def test_a_folder_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    folder = await filled(tmp_path)
    manifest = json.loads((folder / "halfpast.json").read_text())
    manifest["format_version"] += 1
    (folder / "halfpast.json").write_text(json.dumps(manifest))
    with pytest.raises(NewerFormat, match="newer release"):
        await BrokerService.open(folder, SMALL)


@pytest.mark.asyncio
async def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    folder = await filled(tmp_path)
    (folder / "log" / "notes.txt").write_text("not a segment")
    with pytest.raises(ForeignFolder, match=r"notes\.txt"):
        await BrokerService.open(folder, SMALL)
    (folder / "log" / "notes.txt").unlink()
    assert len(await consumed(folder)) == 10  # and the lock was given back


# --- damage ---------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_damaged_segment_is_refused_where_it_is_replayed(
    tmp_path: Path,
) -> None:
    folder = await filled(tmp_path)
    shutil.rmtree(folder / "index")
    flip(segment(folder), 300)
    before = segment(folder).read_bytes()
    with pytest.raises(CorruptLog, match="an intact frame follows"):
        await BrokerService.open(folder, SMALL)
    assert segment(folder).read_bytes() == before
    flip(segment(folder), 300)
    assert await consumed(folder) == [b"%d" % i for i in range(10)]


@pytest.mark.asyncio
async def test_a_damaged_segment_is_met_by_whoever_reads_it(tmp_path: Path) -> None:
    folder = await filled(tmp_path)
    flip(segment(folder), 300)
    service = await BrokerService.open(folder, SMALL)
    try:
        whole = await service.pop(Pop("fresh", "orders"))  # what is not behind it
        assert 0 < len(whole.messages) < 10
        with pytest.raises(CorruptLog, match="it was intact"):
            await service.pop(Pop("fresh", "orders"))
        assert not service.failed.done()
    finally:
        await service.close()


@pytest.mark.asyncio
async def test_an_unfinished_frame_is_cut_off(tmp_path: Path) -> None:
    folder = await filled(tmp_path)
    shutil.rmtree(folder / "index")
    used = segment(folder).read_bytes().rstrip(b"\0")
    with segment(folder).open("r+b") as file:
        file.seek(len(used) - 10)
        file.write(bytes(10))
    assert await consumed(folder) == [b"%d" % i for i in range(9)]


@pytest.mark.asyncio
async def test_a_log_behind_its_index_is_refused(tmp_path: Path) -> None:
    folder = await filled(tmp_path)
    with segment(folder).open("r+b") as file:
        file.seek(300)
        file.write(bytes(10_000))
    with pytest.raises(LogBehindIndex):
        await BrokerService.open(folder, SMALL)


@pytest.mark.asyncio
async def test_the_index_may_be_deleted(tmp_path: Path) -> None:
    folder = await filled(tmp_path)
    shutil.rmtree(folder / "index")
    assert await consumed(folder) == [b"%d" % i for i in range(10)]


# --- failing while it runs ---------------------------------------------------------


async def failed_rig(rig: Rig) -> str:
    """What the broker says of its end, after it failed under one request."""
    with pytest.raises(StoreFailed):
        await rig.publish(b"unknown")
    with pytest.raises(StoreFailed) as raised:
        await asyncio.wait_for(rig.service.failed, 5)
    for call in (
        rig.publish(b"later"),
        rig.broker.pop(Pop("readers", "orders", wait_ms=10_000)),
    ):
        with pytest.raises(StoreFailed):
            await asyncio.wait_for(call, 5)
    return str(raised.value)


@pytest.mark.asyncio
@pytest.mark.parametrize("over_socket", [False, True])
async def test_a_failed_sync_ends_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, over_socket: bool
) -> None:
    async with open_rig(tmp_path, over_socket) as rig:
        await rig.publish(b"safe")
        calls: list[object] = []

        def broken(file: RealFile) -> None:
            calls.append(file)
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(RealFile, "sync", broken)
            assert "Input/output error" in await failed_rig(rig)
        assert len(calls) == 1, "a sync must never be tried again"
    assert (await consumed(tmp_path / "data"))[0] == b"safe"


@pytest.mark.asyncio
async def test_a_failed_index_ends_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_rig(tmp_path, False) as rig:
        await rig.publish(b"safe")

        def broken(index: RocksIndex, batch: object) -> None:
            raise RuntimeError("no more index")

        with monkeypatch.context() as patch:
            patch.setattr(RocksIndex, "write", broken)
            assert "no more index" in await failed_rig(rig)
    # Unknown is not failed: it was durable, and is there.
    assert await consumed(tmp_path / "data") == [b"safe", b"unknown"]


@pytest.mark.asyncio
async def test_a_long_poll_ends_when_the_store_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_rig(tmp_path, False) as rig:
        await rig.topic()
        waiting = asyncio.ensure_future(
            rig.broker.pop(Pop("readers", "orders", wait_ms=20_000, tags=["x"]))
        )
        await asyncio.sleep(0.05)

        def broken(file: RealFile) -> None:
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(RealFile, "sync", broken)
            with pytest.raises(StoreFailed):
                await rig.publish(b"unknown")
            with pytest.raises(StoreFailed):
                await asyncio.wait_for(waiting, 5)
        assert isinstance(rig.service.failed.exception(), StoreFailed)


# --- a full disk ---------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no small file system here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.asyncio
async def test_a_full_disk_is_a_clear_error_and_heals(small_disk: Path) -> None:
    async with open_rig(small_disk, False) as rig:
        ballast = small_disk / "ballast"
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 10 * MIB)
        stored, reason = 0, ""
        topic = await rig.topic()
        for _ in range(1000):
            run = Run(topic.id, 0, [rig.record(bytes(100_000))])
            try:
                await rig.broker.append(Append([run]))
            except StoreFull as error:
                reason = str(error)
                break
            stored += 1
        assert 40 < stored < 200
        assert "disk" in reason
        assert not rig.service.failed.done()
        # Consumers go on: what they do needs little.
        popped = await rig.broker.pop(Pop("readers", "orders", 5))
        assert len(popped.messages) == 5
        receipts = [message.receipt for message in popped.messages]
        request = Settle("readers", SettleAction.ACK, receipts)
        settled = await rig.broker.settle(request)
        assert [result.code for result in settled.results] == [""] * 5
        ballast.unlink()
        for _ in range(100):
            await asyncio.sleep(0.1)
            try:
                await rig.publish(b"again")
                break
            except StoreFull:
                continue
        else:
            pytest.fail("the broker did not notice that there is room again")
        await rig.broker.append(Append([], Lane.SYSTEM))


@pytest.mark.asyncio
async def test_a_start_on_a_full_disk_is_a_clear_error(small_disk: Path) -> None:
    with (small_disk / "ballast").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 21 * MIB)
    with pytest.raises(StoreFull, match="disk is full"):
        await BrokerService.open(small_disk / "data", SMALL)
