"""What a store tells of itself adds up, and stays bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core_store_world import World

from halfpast_core_store import group_lag
from halfpast_core_store.broker import GroupPolicy, SettleAction
from halfpast_core_store.histogram import Histogram
from halfpast_core_store.store_status import StoreStatus

BOUNDS = (0.5, 1, 2.5)


def counters(world: World) -> dict[str, float]:
    return StoreStatus(world.store).now(0, has_failed=False).counters


def gauges(world: World) -> dict[str, float]:
    return StoreStatus(world.store).now(0, has_failed=False).gauges


def lag_of(world: World, group: str, topic: str = "orders") -> float:
    return gauges(world)[f'group_lag_messages{{group="{group}",topic="{topic}"}}']


@given(st.lists(st.floats(0, 10)))
def test_buckets_count_what_is_at_most_so_large(values: list[float]) -> None:
    histogram = Histogram(BOUNDS)
    for value in values:
        histogram.add(value)
    told = histogram.metrics("x")
    for bound in BOUNDS:
        wanted = sum(value <= bound for value in values)
        assert told[f'x_bucket{{le="{bound:g}"}}'] == wanted
    assert told['x_bucket{le="+Inf"}'] == told["x_count"] == len(values)
    assert told["x_sum"] == pytest.approx(sum(values))


def test_commits_are_counted_by_what_shares_them() -> None:
    world = World()
    world.topic("orders")
    before = counters(world)
    world.publish([b"1", b"2", b"3"])
    after = counters(world)
    assert after["log_frames_total"] - before["log_frames_total"] == 1
    assert after["log_commit_requests_sum"] - before["log_commit_requests_sum"] == 1
    assert after["log_commit_records_sum"] - before["log_commit_records_sum"] == 3
    assert after["log_records_total"] == after["log_commit_records_sum"]
    name = 'lane_admitted_total{lane="send"}'
    assert after[name] - before[name] == 1


def test_consumption_is_counted_by_what_consumers_say() -> None:
    world = World()
    world.publish([b"1", b"2", b"3"])
    policy = GroupPolicy(attempts_max=1)
    receipts = [it.receipt for it in world.pop(policy=policy).delivered]
    world.settle(SettleAction.ACK, receipts[:2])
    world.settle(SettleAction.NACK, receipts[2:], policy=policy)
    told = counters(world)
    assert told["group_delivered_total"] == 3
    assert told['group_settled_total{action="ack"}'] == 2
    assert told['group_settled_total{action="nack"}'] == 1
    assert told["group_dead_letters_total"] == 1


def test_lag_is_what_a_group_has_not_taken() -> None:
    world = World()
    world.topic("orders", 2)
    world.publish([b"1"] * 5)
    world.publish([b"1"] * 5, queue=1)
    assert "groups_lag_messages" in gauges(world)
    world.pop(count=4)
    assert lag_of(world, "readers") <= 6
    while world.pop(count=2).delivered:
        pass
    assert lag_of(world, "readers") == 0
    world.publish([b"1"] * 7)
    assert lag_of(world, "readers") == 7
    told = gauges(world)
    assert told["groups_lag_messages"] == 7
    assert told['group_in_flight_messages{group="readers",topic="orders"}'] == 10


def test_lag_is_known_after_a_restart_too() -> None:
    world = World()
    world.publish([b"1", b"2", b"3"])
    world.pop(count=1)
    before = lag_of(world, "readers")
    world.rebuild()
    assert lag_of(world, "readers") == before == 2


def test_the_lag_of_many_groups_takes_several_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_lag, "CURSORS_MAX", 3)
    monkeypatch.setattr(group_lag, "SHOWN_MAX", 2)
    world = World()
    world.publish([b"1"] * 8)
    for number in range(1, 8):
        world.pop(group=f"g{number}", count=number)
    status = StoreStatus(world.store)
    looks = [status.now(0, has_failed=False).gauges for _ in range(3)]
    told = looks[-1]
    shown = {name: it for name, it in told.items() if name.startswith("group_lag_")}
    assert shown == {
        'group_lag_messages{group="g1",topic="orders"}': 7,
        'group_lag_messages{group="g2",topic="orders"}': 6,
    }
    assert told["groups_lag_messages"] == sum(range(1, 8))


def test_a_store_that_has_failed_is_not_read() -> None:
    world = World()
    world.publish([b"1"])
    world.pop(count=1)
    told = StoreStatus(world.store).now(0, has_failed=True).gauges
    assert told["store_writable"] == 0
    assert not [name for name in told if name.startswith("group")]
