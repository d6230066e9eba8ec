"""The snapshot file: the same back, or a clear no."""

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.metadata import snapshot
from halfpast_api.metadata.errors import SnapshotUnusable
from halfpast_api.metadata.settings import (
    GroupSettings,
    ProducerGroupSettings,
    TopicSettings,
)
from halfpast_api.metadata.snapshot import Snapshot

SOURCE = "sqlite:////data/metadata.sqlite"

names = st.text("abcXYZ09_%-", min_size=1, max_size=20)
topic_settings = st.builds(
    TopicSettings,
    queues=st.integers(1, 1024),
    flush=st.sampled_from(["sync", "async"]),
    description=st.text(st.characters(exclude_categories=["Cs"])),
)
group_settings = st.builds(GroupSettings, max_attempts=st.integers(1, 1000))
producer_group_settings = st.builds(
    ProducerGroupSettings,
    check_url=st.text(st.characters(exclude_categories=["Cs"])),
    check_secrets=st.lists(names, max_size=2).map(tuple),
    check_max=st.integers(1, 1000),
)
limits = st.dictionaries(names, st.integers(0, 2**53 - 1))
snapshots = st.builds(
    Snapshot,
    source=st.just(SOURCE),
    version=st.integers(0, 2**63 - 1),
    read_at_ms=st.integers(0, 2**53),
    topics=st.dictionaries(names, topic_settings),
    groups=st.dictionaries(names, group_settings),
    producer_groups=st.dictionaries(names, producer_group_settings),
    limits=st.dictionaries(names, limits),
)

SAVED = Snapshot(
    source=SOURCE,
    version=12,
    read_at_ms=1_767_225_600_000,
    topics={"orders": TopicSettings(queues=9)},
    groups={"billing": GroupSettings(max_attempts=3)},
    producer_groups={"shop": ProducerGroupSettings(check_secrets=("whsec_a",))},
    limits={"topic:orders": {"publish_per_s": 100}},
)


@given(taken=snapshots)
def test_what_is_saved_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, taken: Snapshot
) -> None:
    path = tmp_path_factory.getbasetemp() / "snapshot.json"
    snapshot.save(path, taken)
    assert snapshot.load(path, SOURCE) == taken


def test_a_save_leaves_one_file(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    snapshot.save(path, SAVED)
    snapshot.save(path, SAVED)
    assert list(tmp_path.iterdir()) == [path]


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    """It holds secrets; also where an older release has left one for everybody."""
    path = tmp_path / "snapshot.json"
    left = path.with_name(f"{path.name}.{os.getpid()}.tmp")  # by a crash
    for older in (path, left):
        older.touch()
        older.chmod(0o644)
    snapshot.save(path, SAVED)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert snapshot.load(path, SOURCE) == SAVED
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_of_a_release_without_producer_groups_is_read(tmp_path: Path) -> None:
    path = _saved(tmp_path, {})
    older = json.loads(path.read_text())
    del older["producer_groups"]
    path.write_text(json.dumps(older))
    loaded = snapshot.load(path, SOURCE)
    assert loaded is not None
    assert loaded.producer_groups == {}
    assert (loaded.topics, loaded.limits) == (SAVED.topics, SAVED.limits)


def test_no_file_is_no_error(tmp_path: Path) -> None:
    assert snapshot.load(tmp_path / "snapshot.json", SOURCE) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format_version": 2}, "format version 2"),
        ({"source": "sqlite:////other"}, "it is of sqlite:////other"),
        ({"version": "x"}, r"\$\.version"),
        ({"topics": {"a": {"flush": "never"}}}, r"\$\.topics"),
    ],
)
def test_what_cannot_be_used_is_refused(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    path = _saved(tmp_path, change)
    with pytest.raises(SnapshotUnusable, match=reason):
        snapshot.load(path, SOURCE)


def test_every_torn_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    snapshot.save(path, SAVED)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(SnapshotUnusable):
            snapshot.load(path, SOURCE)


def test_other_releases_can_be_read(tmp_path: Path) -> None:
    """A field we do not know is skipped, one they did not know has its default."""
    topics = {"orders": {"queues": 9, "sharded": True}}
    loaded = snapshot.load(_saved(tmp_path, {"topics": topics, "new": 1}), SOURCE)
    assert loaded == SAVED


def _saved(folder: Path, change: dict[str, object]) -> Path:
    path = folder / "snapshot.json"
    snapshot.save(path, SAVED)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    return path
