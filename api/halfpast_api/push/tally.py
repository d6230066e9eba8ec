"""What is counted of deliveries: for the metrics, and for the page of an endpoint."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from halfpast_api.push.call_result import CallResult, Result

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
        self._buckets = [0] * (len(BUCKETS_S) + 1)
        self._seconds = 0.0

    def called(self, found: CallResult) -> None:
        """Count an attempt."""
        self.results[found.result.value] += 1
        seconds = found.duration_ms / 1000
        self._seconds += seconds
        place = sum(seconds > bound for bound in BUCKETS_S)
        self._buckets[place] += 1

    def counters(self) -> Mapping[str, float]:
        """By the names of the metrics."""
        counters: dict[str, float] = {
            f'push_attempts_total{{result="{result}"}}': count
            for result, count in self.results.items()
        }
        total = 0
        for bound, count in zip((*BUCKETS_S, "+Inf"), self._buckets, strict=True):
            total += count
            counters[f'push_attempt_seconds_bucket{{le="{bound}"}}'] = total
        counters["push_attempt_seconds_sum"] = self._seconds
        counters["push_attempt_seconds_count"] = total
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
