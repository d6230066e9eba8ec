"""Payloads: seeded, of differing shapes, valid JSON, each with its own serial."""

import json

import pytest

from halfpast_loadtest.delivery_check import serial_of
from halfpast_loadtest.payloads import TOPICS, PayloadMaker
from halfpast_loadtest.request_set import bodies, far_ahead


def test_the_same_seed_makes_the_same_payloads() -> None:
    first, second = PayloadMaker(7), PayloadMaker(7)
    assert [first.make() for _ in range(50)] == [second.make() for _ in range(50)]


def test_payloads_differ_in_shape_size_and_spelling() -> None:
    maker = PayloadMaker(1)
    payloads = [maker.make() for _ in range(300)]
    documents = [json.loads(payload.data) for payload in payloads]
    assert {payload.topic for payload in payloads} == set(TOPICS)
    assert len({tuple(sorted(document)) for document in documents}) >= 4
    sizes = sorted(len(payload.data) for payload in payloads)
    assert sizes[0] < 100
    assert sizes[-1] > 1500
    raw = b"".join(payload.data for payload in payloads)
    assert b"\\u" in raw  # escaped
    assert "李".encode() in raw  # and not escaped
    assert b"\n" in raw


def test_every_payload_can_be_known_again() -> None:
    maker = PayloadMaker(2)
    payloads = [maker.make() for _ in range(200)]
    assert [serial_of(one.data) for one in payloads] == [one.serial for one in payloads]
    assert len({one.serial for one in payloads}) == 200


@pytest.mark.parametrize("size", [100, 300, 1000])
def test_bodies_for_a_bench_have_exactly_the_size(size: int) -> None:
    made = bodies(size, 50)
    assert {len(body) for body in made} == {size}
    assert len({*made}) == 50
    assert all(json.loads(body) for body in made)


def test_far_ahead_is_at_least_an_hour() -> None:
    delays = far_ahead("delay_ms")
    assert all((delays().delay_ms or 0) >= 3_600_000 for _ in range(100))
    moments = far_ahead("deliver_at")
    assert all((moments().due_ms or 0) > 1_700_000_000_000 for _ in range(100))
