"""What the front counts, as the API's metrics show it."""

from collections import Counter
from collections.abc import Callable, Mapping

from halfpast_api.rocketmq.protocol import Code
from halfpast_core_store.broker import BrokerStatus


class Counts:
    """Calls by method and code, and gauges that are looked up when they are asked
    for."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, float] = {}
        self._gauges: dict[str, Callable[[], float]] = {}
        self._totals: dict[str, Callable[[], float]] = {}

    def observe(self, method: str, code: int, seconds: float) -> None:
        """One call has ended."""
        self._calls[method, code] += 1
        self._seconds[method] = self._seconds.get(method, 0.0) + seconds

    def watch(
        self,
        gauges: Mapping[str, Callable[[], float]],
        totals: Mapping[str, Callable[[], float]],
    ) -> None:
        """Also show these, by name."""
        self._gauges.update(gauges)
        self._totals.update(totals)

    def status(self) -> BrokerStatus:
        """As a service tells of itself."""
        counters = {
            f'grpc_calls_total{{method="{method}",code="{_code_name(code)}"}}': float(n)
            for (method, code), n in self._calls.items()
        }
        for method, seconds in self._seconds.items():
            counters[f'grpc_call_seconds_total{{method="{method}"}}'] = seconds
        for name, look in self._totals.items():
            counters[name] = float(look())
        gauges = {name: float(look()) for name, look in self._gauges.items()}
        return BrokerStatus(counters, gauges)


def _code_name(code: int) -> str:
    try:
        return Code.Name(code)
    except ValueError:
        return str(code)
