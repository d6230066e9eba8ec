"""Order per key: examples, and a model that is driven at random."""

import heapq
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfpast_api.push.lines import LATER_MS_MAX, SOON_MS, WAITING_MAX, Lines, Turn

KEY = ("orders", 0, b"17")
OTHER = ("orders", 0, b"18")


def arrive(lines: Lines[int], offset: int, now_ms: int = 0) -> Turn[int]:
    return lines.arrive(KEY, offset, offset, now_ms)


def test_the_next_message_of_a_key_goes_when_the_one_before_is_done() -> None:
    lines: Lines[int] = Lines()
    assert arrive(lines, 1).go == [1]
    assert arrive(lines, 2) == Turn()
    assert lines.arrive(OTHER, 3, 3, 0).go == [3]
    assert lines.done(KEY, 1, 0).go == [2]
    assert lines.done(KEY, 2, 0) == Turn()
    lines.done(OTHER, 3, 0)
    assert len(lines) == 0


def test_what_waits_goes_back_while_the_first_one_is_away_for_long() -> None:
    lines: Lines[int] = Lines()
    arrive(lines, 1)
    arrive(lines, 3)
    arrive(lines, 2)
    turn = lines.send_back(KEY, 1, 60_000, 0)
    assert turn.go == []
    assert [held for held, _ in turn.later] == [2, 3]
    assert all(delay_ms > 60_000 for _, delay_ms in turn.later)
    assert arrive(lines, 2, 60_100).go == []  # the first one has not come yet
    assert arrive(lines, 1, 60_100).go == [1]
    assert lines.done(KEY, 1, 60_200).go == [2]


def test_what_waits_stays_while_the_first_one_comes_back_soon() -> None:
    lines: Lines[int] = Lines()
    arrive(lines, 1)
    arrive(lines, 2)
    assert lines.send_back(KEY, 1, SOON_MS, 0) == Turn()
    assert arrive(lines, 1, SOON_MS).go == [1]
    assert lines.done(KEY, 1, SOON_MS).go == [2]


def test_what_is_in_flight_elsewhere_holds_back_what_comes_behind_it() -> None:
    lines: Lines[int] = Lines()
    lines.learn(KEY, 5, 30_000)
    assert arrive(lines, 6).go == []
    assert arrive(lines, 4).go == [4]
    assert lines.done(KEY, 4, 0).go == []
    assert arrive(lines, 5, 30_000).go == [5]


def test_what_the_broker_has_dropped_holds_nothing_back() -> None:
    lines: Lines[int] = Lines()
    lines.learn(KEY, 5, 500)
    assert arrive(lines, 6) == Turn()
    assert lines.keep_only("others", {}, 0) == Turn()
    assert lines.keep_only("orders", {(0, 5): 400}, 0) == Turn()
    assert lines.keep_only("orders", {}, 0).go == [6]


def test_a_line_holds_so_many_and_sends_the_rest_back_for_longer_and_longer() -> None:
    lines: Lines[int] = Lines()
    for offset in range(WAITING_MAX + 1):
        assert not arrive(lines, offset).later
    delays = [arrive(lines, WAITING_MAX + 1 + i).later[0][1] for i in range(5_000)]
    assert delays == sorted(delays)
    assert delays[-1] == LATER_MS_MAX


def test_an_older_message_that_is_offered_again_goes_next() -> None:
    lines: Lines[int] = Lines()
    arrive(lines, 5)
    arrive(lines, 6)
    assert arrive(lines, 2).go == []
    assert lines.done(KEY, 5, 0).go == [2]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_every_message_is_delivered_once_and_in_order(seed: int) -> None:
    """A broker that hides and offers, deliveries that fail, restarts in between."""
    chance = random.Random(seed)
    count = chance.randint(1, 12)
    hidden = [(0, offset) for offset in range(count)]
    lines: Lines[int] = Lines()
    running: list[int] = []
    delivered: list[int] = []
    now_ms = 0

    def take(turn: Turn[int]) -> None:
        running.extend(turn.go)
        for held, delay_ms in turn.later:
            heapq.heappush(hidden, (now_ms + delay_ms, held))

    for _ in range(20_000):
        if len(delivered) == count:
            break
        what = chance.choice(["pop", "pop", "done", "fail", "restart"])
        if what == "pop" and hidden:
            now_ms = max(now_ms, hidden[0][0])
            _, offset = heapq.heappop(hidden)
            take(lines.arrive(KEY, offset, offset, now_ms))
        elif what == "done" and running:
            offset = running.pop()
            delivered.append(offset)
            take(lines.done(KEY, offset, now_ms))
        elif what == "fail" and running:
            offset = running.pop()
            until_ms = now_ms + chance.choice([0, 100, 5_000])
            heapq.heappush(hidden, (until_ms, offset))
            take(lines.send_back(KEY, offset, until_ms, now_ms))
        elif what == "restart" and chance.random() < 0.1:
            for offset in [*running, *(held for _, _, held in lines.waiting())]:
                heapq.heappush(hidden, (now_ms + 30_000, offset))
            running.clear()
            lines = Lines()
            for until_ms, offset in hidden:
                lines.learn(KEY, offset, until_ms)
        assert len(running) <= 1
    assert delivered == list(range(count))


def test_only_what_runs_can_be_done() -> None:
    lines: Lines[int] = Lines()
    arrive(lines, 1)
    arrive(lines, 2)
    with pytest.raises(AssertionError):
        lines.done(KEY, 2, 0)
