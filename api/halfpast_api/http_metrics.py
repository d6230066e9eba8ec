"""Counts and durations of requests, by route: plain numbers, no locks, no labels.

`observe` is on the path of every request and takes half a microsecond;
`prometheus.py` turns the numbers into metrics when they are asked for.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from typing import Final

_REFUSALS: Final = frozenset({401, 403, 429, 503})
BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)


class RouteMetrics:
    """The numbers of one route. `by_class[2]` counts the answers 200 to 299."""

    __slots__ = ("buckets", "by_class", "method", "seconds", "template")

    def __init__(self, method: str, template: str) -> None:
        self.method = method
        self.template = template
        self.by_class = [0] * 6
        self.buckets = [0] * (len(BUCKETS_S) + 1)
        self.seconds = 0.0

    def observe(self, status: int, seconds: float) -> None:
        """Count one answer."""
        self.by_class[status // 100] += 1
        self.buckets[bisect_left(BUCKETS_S, seconds)] += 1
        self.seconds += seconds


class HttpMetrics:
    """The numbers of all routes. Requests that match none are counted together.
    `refused`: by status and code, those that were not let in, or were too much."""

    def __init__(self, routes: Iterable[tuple[str, str]]) -> None:
        self.refused: Final = Counter[tuple[int, str]]()
        self._routes = {key: RouteMetrics(*key) for key in routes}
        self.unmatched: Final = RouteMetrics("ANY", "unmatched")

    def add(self, method: str, template: str) -> None:
        """One more route."""
        self._routes[method, template] = RouteMetrics(method, template)

    def refuse(self, status: int, code: str) -> None:
        """Count a refusal, if it is one of those."""
        if status in _REFUSALS:
            self.refused[status, code] += 1

    def route(self, method: str, template: str) -> RouteMetrics:
        return self._routes[method, template]

    def all(self) -> list[RouteMetrics]:
        """Also those that have not been used."""
        return [*self._routes.values(), self.unmatched]
