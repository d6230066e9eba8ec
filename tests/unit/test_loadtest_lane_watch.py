"""How full a lane was, summed up from statuses of the broker."""

from halfpast_core_store.broker import BrokerStatus
from halfpast_core_store.config import LanesConfig
from halfpast_loadtest.lane_watch import LaneUse, lane_use

BOUNDS = LanesConfig(request_count_max=100, size_max=1_000_000)


def status(requests: int, size: int, refused: int, ends: int = 0) -> BrokerStatus:
    return BrokerStatus(
        {
            'lane_refused_total{lane="send"}': refused,
            'lane_refused_total{lane="end-transaction"}': 0,
        },
        {
            'lane_waiting_requests{lane="send"}': requests,
            'lane_waiting_bytes{lane="send"}': size,
            'lane_waiting_requests{lane="end-transaction"}': ends,
            'lane_waiting_bytes{lane="end-transaction"}': 0,
        },
    )


def test_nothing_seen_is_nothing_said() -> None:
    assert lane_use([], BOUNDS) == LaneUse()


def test_a_lane_is_full_by_requests_or_by_bytes() -> None:
    seen = [
        status(95, 10, 5),
        status(3, 950_000, 7, ends=2),
        status(50, 500_000, 9),
        status(0, 0, 9),
    ]
    use = lane_use(seen, BOUNDS)
    assert use.looks == 4
    assert use.full_share == 0.5
    assert use.refused == 4
    assert use.end_waiting_requests_max == 2
    assert use.end_refused == 0
