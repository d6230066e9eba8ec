"""The trail waits for its database, and forgets what is too old."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio

from halfpast_api.access import trail as trail_module
from halfpast_api.access.access import Access
from halfpast_api.access.config import TrailConfig
from halfpast_api.access.trail import Trail
from halfpast_api.access.trail_rows import TrailFilter
from halfpast_api.metadata.errors import MetadataUnavailable
from halfpast_api.metadata.store import MetadataStore

pytestmark = pytest.mark.asyncio

ANN = Access(actor="user:ann", kind="user", namespace="acme")


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncGenerator[MetadataStore]:
    found = await MetadataStore.open(f"sqlite:///{tmp_path}/metadata.sqlite")
    yield found
    await found.close()


async def objects(trail: Trail, wanted: TrailFilter | None = None) -> list[str]:
    return [it.object for it in await trail.page(wanted or TrailFilter(), 100, "")]


async def test_what_cannot_be_written_now_is_written_later(
    store: MetadataStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trail_module, "_WAITING_MAX", 3)
    trail = Trail(store)
    file, aside = tmp_path / "metadata.sqlite", tmp_path / "aside"
    file.rename(aside)
    for number in range(5):
        await trail.record(ANN, "force", f"t{number}", after={"secret": "a"})
    assert (trail.waiting, trail.lost) == (3, 2)
    with pytest.raises(MetadataUnavailable):
        await trail.catch_up()
    aside.rename(file)
    await trail.catch_up()
    assert trail.waiting == 0
    assert await objects(trail) == ["t4", "t3", "t2"]
    (entry, *_) = await trail.page(TrailFilter(), 1, "")
    assert (entry.actor, entry.namespace, entry.after) == (
        *("user:ann", "acme"),
        '{"secret":"…"}',
    )


async def test_the_oldest_are_forgotten(store: MetadataStore) -> None:
    trail = Trail(store, TrailConfig(count_max=3))
    for number in range(5):
        await trail.record(ANN, "a", f"t{number}")
    assert await trail.trim() == 2
    assert await objects(trail) == ["t4", "t3", "t2"]
    assert await trail.trim() == 0
    (newest, *_) = await trail.page(TrailFilter(), 1, "")
    config = TrailConfig(kept_ms=1000)
    later = Trail(store, config, lambda: newest.at_ms + 1000)
    await later.trim()
    assert (await objects(trail))[0] == "t4"
    latest = Trail(store, config, lambda: newest.at_ms + 1001)
    assert await latest.trim() > 0
    assert await objects(trail) == []


async def test_filters(store: MetadataStore) -> None:
    trail = Trail(store)
    await trail.record(ANN, "a", "x")
    await trail.record(Access(actor="key:k"), "b", "x")
    await trail.record(ANN, "a", "y")
    newest, *_ = await trail.page(TrailFilter(), 1, "")
    assert await objects(trail, TrailFilter(namespace="acme")) == ["y", "x"]
    assert await objects(trail, TrailFilter(namespace="")) == ["x"]
    assert await objects(trail, TrailFilter(actor="key:k")) == ["x"]
    assert await objects(trail, TrailFilter(action="a", object="x")) == ["x"]
    assert await objects(trail, TrailFilter(before_ms=0)) == []
    assert await objects(trail, TrailFilter(after_ms=newest.at_ms + 1)) == []
    everything = TrailFilter(after_ms=1, before_ms=newest.at_ms + 1)
    assert len(await objects(trail, everything)) == 3
    assert [it.object for it in await trail.page(TrailFilter(), 9, newest.id)] == [
        *("x", "x")
    ]
