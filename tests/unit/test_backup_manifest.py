"""The list of a backup's files, and what becomes of it when bytes change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.backup.errors import DamagedBackup
from halfpast_api.backup.manifest import (
    BackedUpFile,
    BackupManifest,
    Metadata,
    decode_manifest,
    encode_manifest,
)

MANIFEST = BackupManifest(
    name="20261120T100000.000Z",
    store_id="0123456789abcdef",
    taken_ms=1_795_168_800_000,
    log_start=0,
    log_end=4096,
    applied={"index": 4096, "chronos": 2048},
    metadata=Metadata.INCLUDED,
    files=(
        BackedUpFile(path="halfpast.json", size=73, stored=73, sha256="ab" * 32),
        BackedUpFile(
            path=f"log/{0:020d}.seg",
            size=1 << 30,
            stored=4096,
            sha256="cd" * 32,
            mtime_ns=1_795_168_800_000_000_000,
            inode=7,
        ),
    ),
)
ENCODED = encode_manifest(MANIFEST)


def test_what_was_written_is_read() -> None:
    assert decode_manifest(MANIFEST.name, ENCODED) == MANIFEST
    assert MANIFEST.size == 73 + 4096


@given(st.integers(0, 8 * (len(ENCODED) - 1) - 1))
def test_a_flipped_bit_is_told(bit: int) -> None:
    data = bytearray(ENCODED)
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(DamagedBackup) as caught:
        decode_manifest(MANIFEST.name, bytes(data))
    assert caught.value.name == MANIFEST.name


@given(st.integers(0, len(ENCODED) - 2))
def test_a_cut_list_is_told(size: int) -> None:
    with pytest.raises(DamagedBackup):
        decode_manifest(MANIFEST.name, ENCODED[:size])


def test_another_backups_list_is_told() -> None:
    with pytest.raises(DamagedBackup):
        decode_manifest("20261121T100000.000Z", ENCODED)
