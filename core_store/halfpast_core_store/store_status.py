"""What a store counts and measures, by the names of the metrics."""

from .broker import BrokerStatus
from .store import Store


def status_of(store: Store, sync_s: float, *, has_failed: bool) -> BrokerStatus:
    """Counters since the start, and gauges; `sync_s` is the time spent in syncs."""
    gauges: dict[str, float] = {
        "log_start_position": store.log.start,
        "log_durable_position": store.log.durable_end,
        "log_size_bytes": store.log.size,
        "index_flushed_position": store.flushed_position,
        "store_writable": float(store.writable and not has_failed),
    }
    counters: dict[str, float] = {
        "log_frames_total": store.frames,
        "log_records_total": store.records,
        "log_sync_seconds_total": sync_s,
    }
    for lane, (requests, size, refused) in store.lanes.waiting().items():
        gauges[f'lane_waiting_requests{{lane="{lane}"}}'] = requests
        gauges[f'lane_waiting_bytes{{lane="{lane}"}}'] = size
        counters[f'lane_refused_total{{lane="{lane}"}}'] = refused
    return BrokerStatus(counters, gauges)
