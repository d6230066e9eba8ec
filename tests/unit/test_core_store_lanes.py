"""Admission lanes: bounds, order, and a fair share of every frame."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_core_store.broker import Lane
from halfpast_core_store.config import LanesConfig
from halfpast_core_store.errors import Overloaded
from halfpast_core_store.lanes import Lanes

CONFIG = LanesConfig(
    send_message_thread_pool_nums=2, request_count_max=1000, size_max=10_000
)
Item = tuple[int, int]


def lanes_with(*items: tuple[int, int]) -> Lanes[Item]:
    """Lanes in which (lane, size) wait; each item knows its lane and number."""
    lanes: Lanes[Item] = Lanes(CONFIG)
    for i, (lane, size) in enumerate(items):
        lanes.put(lane, (lane, i), size)
    return lanes


def test_all_is_taken_when_it_fits() -> None:
    lanes = lanes_with((Lane.SEND, 10), (Lane.CONSUME, 10), (Lane.SEND, 10))
    assert sorted(lanes.take(30)) == [(Lane.SEND, 0), (Lane.SEND, 2), (Lane.CONSUME, 1)]
    assert not lanes
    assert lanes.take(30) == []


@given(
    st.lists(st.tuples(st.sampled_from(list(Lane)), st.integers(1, 300)), max_size=60),
    st.integers(50, 250),
)
def test_nothing_is_lost_or_overtaken_or_too_much(
    items: list[tuple[int, int]], size_max: int
) -> None:
    lanes = lanes_with(*items)
    taken: list[Item] = []
    while lanes:
        frame = lanes.take(size_max)
        assert frame
        size = sum(items[number][1] for _, number in frame)
        assert size <= size_max or len(frame) == 1, "a larger one goes alone"
        taken += frame
    assert lanes.size == 0
    assert sorted(number for _, number in taken) == list(range(len(items)))
    for lane in Lane:
        mine = [number for found, number in taken if found == lane]
        assert mine == sorted(mine)


@pytest.mark.parametrize(("send_size", "end_size"), [(10, 10), (90, 10), (10, 90)])
def test_phase_two_has_four_times_the_share(send_size: int, end_size: int) -> None:
    lanes = lanes_with()
    served = {Lane.SEND: 0, Lane.END_TRANSACTION: 0}
    sizes = {Lane.SEND: send_size, Lane.END_TRANSACTION: end_size}
    for lane in served:
        for i in range(50):
            lanes.put(lane, (lane, i), sizes[lane])
    for _ in range(500):
        for number, _ in lanes.take(100):
            lane = Lane(number)
            served[lane] += sizes[lane]
            lanes.put(lane, (lane, 0), sizes[lane])  # saturated
    ratio = served[Lane.END_TRANSACTION] / served[Lane.SEND]
    assert 3.6 < ratio < 4.4


def test_large_sends_are_not_starved_by_small_acknowledgements() -> None:
    lanes = lanes_with((Lane.SEND, 80))
    for i in range(100):
        lanes.put(Lane.CONSUME, (Lane.CONSUME, i), 10)
        lanes.put(Lane.END_TRANSACTION, (Lane.END_TRANSACTION, i), 10)
    frames = [lanes.take(100) for _ in range(10)]
    assert any((Lane.SEND, 0) in frame for frame in frames)


def test_a_lane_that_was_empty_has_saved_nothing_up() -> None:
    lanes = lanes_with(*[(Lane.CONSUME, 10)] * 50)
    for _ in range(4):
        lanes.take(50)
    for i in range(50):
        lanes.put(Lane.SEND, (Lane.SEND, i), 10)
    sends = [lane for lane, _ in lanes.take(60) if lane == Lane.SEND]
    assert len(sends) <= 3


def test_a_lane_is_bounded_in_requests() -> None:
    lanes: Lanes[int] = Lanes(LanesConfig(request_count_max=2))
    for i in range(2):
        lanes.check(Lane.SEND, 1)
        lanes.put(Lane.SEND, i, 1)
    with pytest.raises(Overloaded):
        lanes.check(Lane.SEND, 1)
    lanes.check(Lane.CONSUME, 1)
    assert lanes.waiting()["send"] == (2, 2, 1)
    lanes.take(10)
    lanes.check(Lane.SEND, 1)


def test_a_lane_is_bounded_in_bytes_but_takes_one_request_of_any_size() -> None:
    lanes: Lanes[int] = Lanes(LanesConfig(size_max=100))
    lanes.check(Lane.SEND, 5000)
    lanes.put(Lane.SEND, 1, 60)
    lanes.check(Lane.SEND, 40)
    with pytest.raises(Overloaded):
        lanes.check(Lane.SEND, 41)


def test_the_weights_are_those_of_rocketmq() -> None:
    config = LanesConfig(
        send_message_thread_pool_nums=1, end_transaction_thread_pool_nums=9
    )
    lanes: Lanes[int] = Lanes(config)
    for lane in (Lane.SEND, Lane.END_TRANSACTION):
        for _ in range(100):
            lanes.put(lane, lane, 1)
    taken = lanes.take(100)
    assert (taken.count(Lane.SEND), taken.count(Lane.END_TRANSACTION)) == (10, 90)


def test_draining_empties_every_lane() -> None:
    lanes = lanes_with((Lane.SEND, 10), (Lane.SYSTEM, 10))
    assert len(lanes.drain()) == 2
    assert not lanes
    assert lanes.waiting()["send"] == (0, 0, 0)
