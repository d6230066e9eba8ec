"""How much may be under way follows from how long it takes; who gives way first."""

import asyncio
from collections.abc import Iterator

import pytest
from aiohttp.http_parser import HttpRequestParser
from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.access.verbs import Verb
from halfpast_api.load.overload_config import OverloadConfig
from halfpast_api.load.shedder import Shedder
from halfpast_api.load.urgency import Urgency, urgency_of
from halfpast_api.load.whole_entry import is_whole_entry
from halfpast_api.load.work_window import WorkWindow
from halfpast_api.problems import Refusal

CONFIG = OverloadConfig(units_min=10, units_first=100, units_max=200)
BODY = b'{"data":1}'


def settle(
    window: WorkWindow, took_s: float, intervals: int, late_s: float = 0
) -> None:
    """A window that is always full, where work takes so long."""
    for _ in range(intervals):
        units: list[int] = []
        while not window.is_full:
            units.append(window.enter(0))
        for one in units:
            window.leave(one, took_s)
        window.adjust(late_s, late_s)


def test_it_grows_while_work_is_quick_and_shrinks_when_it_is_not() -> None:
    window = WorkWindow(CONFIG)
    settle(window, 0.001, 100)
    assert window.size == CONFIG.units_max
    settle(window, 1.0, 3)
    assert window.size == CONFIG.units_max / 8
    settle(window, 1.0, 100)
    assert window.size == CONFIG.units_min


def test_it_grows_only_when_it_is_full() -> None:
    window = WorkWindow(CONFIG)
    for _ in range(50):
        window.leave(window.enter(0), 0.001)
        window.adjust(0.0, 0.0)
    assert window.size == CONFIG.units_first


def test_a_late_loop_counts_as_much_as_slow_work() -> None:
    window = WorkWindow(CONFIG)
    settle(window, 0.001, 10, late_s=0.3)
    assert window.size == CONFIG.units_min
    assert window.is_late
    window.adjust(0.5, 0.1)  # one long pause
    assert not window.is_late


@given(st.floats(0.0001, 0.005))
def test_it_settles_where_the_target_is_just_kept(unit_s: float) -> None:
    """Work that is done one after the other: each unit waits for those before it."""
    config = OverloadConfig(units_min=1, units_first=1000)
    window = WorkWindow(config)
    for _ in range(300):
        units = 0
        while not window.is_full:
            units += window.enter(0)
        for number in range(units):
            window.leave(1, (number + 1) * unit_s)
        window.adjust(0.0, 0.0)
    mean_ms = window.size / 2 * unit_s * 1000
    assert config.target_ms * 0.4 < mean_ms < config.target_ms * 1.2 + unit_s * 1000


def test_large_requests_count_for_more() -> None:
    window = WorkWindow(CONFIG)
    assert window.enter(10) == 1
    assert window.enter(200_000) == 49
    assert not window.is_full
    assert window.enter(30_000_000) == 64  # and not so many that nobody else gets in
    assert window.is_full


def test_entries_give_way_first_and_what_ends_something_never() -> None:
    shedder = Shedder(CONFIG)
    settle(shedder.window, 0.001, 1, late_s=0.5)
    shedder.window.units = 1000
    for urgency in (Urgency.ENTRY, Urgency.ORDINARY):
        with pytest.raises(Refusal) as caught:
            shedder.check(urgency)
        assert caught.value.code == "overloaded"
        assert ("Retry-After", "1") in caught.value.headers
    for urgency in (Urgency.SETTLING, Urgency.TENDING, Urgency.FREE):
        shedder.check(urgency)
    shedder.window.adjust(0.0, 0.0)
    shedder.check(Urgency.ORDINARY)
    with pytest.raises(Refusal):
        shedder.check(Urgency.ENTRY)


@pytest.mark.parametrize(
    ("method", "template", "verb", "urgency"),
    [
        ("POST", "/v1/topics/{topic}/events", Verb.PUBLISH, Urgency.ENTRY),
        ("POST", "/v1/transactions", Verb.PUBLISH, Urgency.ENTRY),
        ("POST", "/v1/transactions/{id}:commit", Verb.PUBLISH, Urgency.SETTLING),
        ("POST", "/v1/transactions:end", Verb.PUBLISH, Urgency.SETTLING),
        ("POST", "/v1/groups/{group}:ack", Verb.CONSUME, Urgency.SETTLING),
        ("POST", "/v1/groups/{group}:pop", Verb.CONSUME, Urgency.ORDINARY),
        ("DELETE", "/v1/events/{id}", Verb.SCHEDULE, Urgency.SETTLING),
        ("GET", "/v1/events", Verb.READ, Urgency.ORDINARY),
        ("PUT", "/v1/topics/{topic}", Verb.MANAGE, Urgency.TENDING),
        ("GET", "/healthz", Verb.OPEN, Urgency.FREE),
        ("GET", "/v1/limits", Verb.READ, Urgency.FREE),
    ],
)
def test_how_urgent_routes_are(
    method: str, template: str, verb: Verb, urgency: Urgency
) -> None:
    assert urgency_of(method, template, verb, is_page=False) is urgency


def request(line: bytes, *headers: bytes, body: bytes = BODY) -> bytes:
    return b"\r\n".join([line, b"Host: x", *headers, b"", body])


LENGTH = b"Content-Length: 10"
POST = b"POST /v1/topics/orders/events HTTP/1.1"


@pytest.mark.parametrize(
    "data",
    [
        request(POST, LENGTH),
        request(POST, b"content-LENGTH:10 ", b"Connection: keep-alive"),
        request(b"PUT /v1/topics/a/events/k HTTP/1.1", LENGTH),
        request(b"POST /v1/events:batch HTTP/1.1", LENGTH),
        request(b"POST /v1/transactions HTTP/1.1", LENGTH),
    ],
)
def test_plain_entries_are_known(data: bytes) -> None:
    assert is_whole_entry(data)


@pytest.mark.parametrize(
    "data",
    [
        request(POST),
        request(POST, b"Content-Length: 9"),
        request(POST, b"Content-Length: 11"),
        request(POST, b"Content-Length: +10"),
        request(POST, LENGTH, LENGTH),
        request(POST, LENGTH, b"Transfer-Encoding: chunked"),
        request(POST, LENGTH, b"Expect: 100-continue"),
        request(POST, LENGTH, b"X: a", b" folded"),
        request(POST, LENGTH) + request(POST, LENGTH),
        request(POST.replace(b"1.1", b"1.0"), LENGTH),
        request(b"POST  /v1/events:batch HTTP/1.1", LENGTH),
        request(b"GET /v1/events HTTP/1.1", LENGTH),
        request(b"PUT /v1/topics/events HTTP/1.1", LENGTH),
        request(b"PUT /v1/topics/orders HTTP/1.1", LENGTH),
        request(b"POST /v1/groups/a:ack HTTP/1.1", LENGTH),
        request(b"POST /v1/transactions/1:commit HTTP/1.1", LENGTH),
        b"POST /v1/events:batch HTTP/1.1\nContent-Length: 0\n\n",
        b"",
    ],
)
def test_what_is_not_plain_is_parsed(data: bytes) -> None:
    assert not is_whole_entry(data)


HEADERS = st.sampled_from(
    [
        *(
            LENGTH,
            b"Content-Length: 11",
            b"content-length:\t10",
            b"Content-Length:10,10",
        ),
        *(b"Transfer-Encoding: chunked", b"transfer-encoding : identity", b"X: 1"),
        *(b"X: Content-Length: 10", b"\tContent-Length: 10", b"Content-Length: 1_0"),
        *(b"Content-Length: 010", b"Connection: close", b"X:\x0bContent-Length: 3"),
    ]
)


@given(
    st.sampled_from([POST, b"POST /v1/events:batch HTTP/1.1"]),
    st.lists(HEADERS, max_size=4),
    st.sampled_from([BODY, BODY + b"1", b"", BODY + request(POST, LENGTH)]),
)
def test_no_second_request_hides_behind_one_that_is_not_parsed(
    line: bytes, headers: list[bytes], body: bytes
) -> None:
    """What is taken for one whole request is one for aiohttp's parser too, or none."""
    data = request(line, *headers, body=body)
    if not is_whole_entry(data):
        return
    for found in parsed(data):
        assert found == 1


def parsed(data: bytes) -> Iterator[int]:
    """How many requests aiohttp finds; nothing if it refuses them."""
    from unittest import mock

    from aiohttp.http_exceptions import HttpProcessingError

    loop = asyncio.new_event_loop()
    try:
        parser = HttpRequestParser(mock.Mock(), loop, 2**16)
        messages, _, rest = parser.feed_data(data)
    except HttpProcessingError:
        return
    finally:
        loop.close()
    assert not rest
    yield len(messages)
