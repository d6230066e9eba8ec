"""What a store counts and measures, by the names of the metrics."""

from .broker import BrokerStatus
from .group_lag import GroupLag
from .store import Store


class StoreStatus:
    """Of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lag = GroupLag(store)

    def now(self, sync_s: float, *, has_failed: bool) -> BrokerStatus:
        """Counters since the start, and gauges; `sync_s` is the time that the thread
        which writes has been at work."""
        store = self._store
        gauges: dict[str, float] = {
            "log_start_position": store.log.start,
            "log_durable_position": store.log.durable_end,
            "log_size_bytes": store.log.size,
            "index_flushed_position": store.flushed_position,
            "store_writable": float(store.writable and not has_failed),
        }
        counters: dict[str, float] = {
            "log_sync_seconds_total": sync_s,
            **store.commits.metrics(),
            **store.groups.counts.metrics(),
        }
        for lane, (requests, size, refused) in store.lanes.waiting().items():
            gauges[f'lane_waiting_requests{{lane="{lane}"}}'] = requests
            gauges[f'lane_waiting_bytes{{lane="{lane}"}}'] = size
            counters[f'lane_refused_total{{lane="{lane}"}}'] = refused
        for lane, admitted in store.lanes.admitted().items():
            counters[f'lane_admitted_total{{lane="{lane}"}}'] = admitted
        if not has_failed:  # it reads the index
            gauges |= self._lag.gauges()
        return BrokerStatus(counters, gauges)
