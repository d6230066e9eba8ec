"""The workload is the same for the same seed, and holds every course."""

from collections import Counter

import msgspec

from halfpast_loadtest.delivery_check import serial_of
from halfpast_loadtest.order_desk import NAME, kill_points
from halfpast_loadtest.producer_process import ProducerConfig
from halfpast_loadtest.transaction_plan import (
    CREATED,
    SHARES,
    TIMEOUT,
    Course,
    message_data,
    planned_order,
    serial_of_message,
)

DELAY_MS_MAX = 2000


def test_an_order_depends_on_nothing_but_its_place() -> None:
    later = planned_order(7, "p0", 3, DELAY_MS_MAX)
    assert [planned_order(7, "p0", n, DELAY_MS_MAX) for n in range(4)][3] == later
    assert planned_order(8, "p0", 3, DELAY_MS_MAX) != later or (
        planned_order(8, "p0", 4, DELAY_MS_MAX)
        != planned_order(7, "p0", 4, DELAY_MS_MAX)
    )


def test_two_hundred_orders_take_every_course() -> None:
    orders = [planned_order(2026, "p0", n, DELAY_MS_MAX) for n in range(200)]
    courses = Counter(order.course for order in orders)
    assert set(courses) == set(SHARES)
    assert courses[Course.COMMITTED] > 100
    assert all(order.messages[0].topic == CREATED for order in orders)
    delays = [m.delay_ms for o in orders for m in o.messages if m.topic == TIMEOUT]
    assert len(delays) > 50
    assert all(0 < delay_ms <= DELAY_MS_MAX for delay_ms in delays)


def test_only_what_fails_locally_is_not_placed() -> None:
    orders = [planned_order(2026, "p0", n, DELAY_MS_MAX) for n in range(200)]
    failed = {order.course for order in orders if not order.is_placed}
    assert failed == {Course.REFUSED, Course.VANISHED}


def test_a_message_is_known_again_by_its_serial() -> None:
    order = planned_order(1, "p0", 17, DELAY_MS_MAX)
    serial = serial_of_message("p0", 17, "1f2e", 0)
    data = message_data(serial, 17, order.messages[0])
    assert serial_of(data) == serial
    assert msgspec.json.decode(data)["order"] == 17


def test_the_service_is_killed_where_it_commits() -> None:
    config = ProducerConfig(seed=2026)
    points = kill_points(config, 200, 4)
    assert len(set(points)) == 4
    courses = {
        planned_order(2026, NAME, number, config.delay_ms_max).course
        for number in points
    }
    assert courses == {Course.COMMITTED}
