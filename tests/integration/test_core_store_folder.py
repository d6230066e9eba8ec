"""The data folder: one holder at a time, and nobody's but ours."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from halfpast_core_store.errors import FolderInUse, ForeignFolder, NewerFormat
from halfpast_core_store.folder import (
    FORMAT_VERSION,
    MANIFEST,
    FolderLock,
    open_manifest,
)
from halfpast_core_store.real_clock import RealRng

RNG = RealRng()

HOLD = """
import sys
from pathlib import Path
from halfpast_core_store.folder import FolderLock
lock = FolderLock(Path(sys.argv[1]), "broker")
print("held", flush=True)
sys.stdin.read()
"""


def holder(folder: Path) -> "subprocess.Popen[str]":
    """Another process that holds the folder until its input ends or it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.mark.parametrize("end", ["close", "kill"])
def test_another_process_keeps_a_folder_to_itself(tmp_path: Path, end: str) -> None:
    with holder(tmp_path) as process:
        with pytest.raises(FolderInUse, match=f"process {process.pid}") as raised:
            FolderLock(tmp_path, "broker")
        assert str(tmp_path) in str(raised.value)
        FolderLock(tmp_path, "chronos").close()  # another service's part
        if end == "close":
            assert process.stdin is not None
            process.stdin.close()
        else:
            process.kill()
        process.wait()
    FolderLock(tmp_path, "broker").close()


def test_a_folder_is_locked_within_a_process_too(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path / "new" / "folder", "broker")
    with pytest.raises(FolderInUse):
        FolderLock(tmp_path / "new" / "folder", "broker")
    lock.close()
    FolderLock(tmp_path / "new" / "folder", "broker").close()


def test_a_manifest_is_made_once_and_then_read(tmp_path: Path) -> None:
    made = open_manifest(tmp_path / "data", RNG)
    assert made.format_version == FORMAT_VERSION
    assert open_manifest(tmp_path / "data", RNG) == made
    assert open_manifest(tmp_path / "other", RNG) != made
    assert os.listdir(tmp_path / "data") == [MANIFEST]


def test_a_manifest_that_was_not_finished_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "halfpast.new").write_bytes(b'{"format_v')
    open_manifest(tmp_path, RNG)
    assert os.listdir(tmp_path) == [MANIFEST]


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    open_manifest(tmp_path, RNG)
    path = tmp_path / MANIFEST
    found = json.loads(path.read_text())
    path.write_text(json.dumps(found | {"format_version": FORMAT_VERSION + 1}))
    with pytest.raises(NewerFormat) as raised:
        open_manifest(tmp_path, RNG)
    assert (raised.value.found, raised.value.known) == (FORMAT_VERSION + 1, 1)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"3",
        b"null",
        b"{}",
        b'{"format_version": 1}',
        b'{"format_version": "one", "store_id": "x", "salt": 1}',
        b'{"format_version": 1, "store_id": "x", "salt": null}',
        b'{"format_version": 0, "store_id": "x", "salt": 1}',
        b'{"format_version": 1, "store_id": "x", "salt": -1}',
        b'{"format_version": 1, "store_id": "x", "salt": 4294967296}',
        b'{"format_version": 1, "store_id": "x", "salt": 1e400}',
    ],
)
def test_a_broken_manifest_is_refused_and_left_alone(
    tmp_path: Path, text: bytes
) -> None:
    (tmp_path / MANIFEST).write_bytes(text)
    with pytest.raises(ForeignFolder, match="is broken"):
        open_manifest(tmp_path, RNG)
    assert (tmp_path / MANIFEST).read_bytes() == text


def test_a_log_without_a_manifest_is_not_given_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with pytest.raises(ForeignFolder, match=r"no halfpast\.json"):
        open_manifest(tmp_path, RNG)
