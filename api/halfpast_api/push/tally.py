"""What is counted of deliveries: for the metrics, and for the page of an endpoint."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from halfpast_api.push.call_result import CallResult, Result
from halfpast_core_store.histogram import Histogram

BUCKETS_S: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)


class Tally:
    """Of all endpoints, since the process began."""

    def __init__(self) -> None:
        self.results: Counter[str] = Counter(dict.fromkeys(Result, 0))
        self.dead = 0
        self.filtered = 0
        self.disabled = 0
        self._seconds = Histogram(BUCKETS_S)

    def called(self, found: CallResult) -> None:
        """Count an attempt."""
        self.results[found.result.value] += 1
        self._seconds.add(found.duration_ms / 1000)

    def counters(self) -> Mapping[str, float]:
        """By the names of the metrics."""
        counters: dict[str, float] = {
            f'push_attempts_total{{result="{result}"}}': count
            for result, count in self.results.items()
        }
        counters |= self._seconds.metrics("push_attempt_seconds")
        counters["push_dead_total"] = self.dead
        counters["push_filtered_total"] = self.filtered
        counters["push_disabled_total"] = self.disabled
        return counters


@dataclass(slots=True)
class EndpointTally:
    """Of one endpoint, since this process knows it. Times in epoch ms, 0 for never."""

    delivered: int = 0
    failed: int = 0
    last_delivered_ms: int = 0
    last_failed_ms: int = 0
    last_error: str = ""

    def called(self, found: CallResult, now_ms: int) -> None:
        """Count an attempt."""
        if found.is_delivered:
            self.delivered += 1
            self.last_delivered_ms = now_ms
        else:
            self.failed += 1
            self.last_failed_ms = now_ms
            self.last_error = found.error
