"""Metrics in the text format of Prometheus.

The services behind the API name theirs as Prometheus does, with labels, as in
`lane_refused_total{lane="send"}`; all of them get the prefix `halfpast_`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from halfpast_api.http_metrics import BUCKETS_S, HttpMetrics
from halfpast_api.metric_help import help_for
from halfpast_core_store.broker import BrokerStatus

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
_NAME: Final = re.compile(r"([a-z_][a-z0-9_]*)(?:\{(.*)\})?")
_LABEL: Final = re.compile(r'([a-z_][a-z0-9_]*)="([^"]*)"')
_HISTOGRAM_PARTS: Final = ("_bucket", "_sum", "_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What is known at one moment. A service that does not answer is None."""

    services: dict[str, BrokerStatus | None] = field(
        default_factory=dict[str, BrokerStatus | None]
    )
    connections: int = 0
    ended: Mapping[str, int] = field(default_factory=dict[str, int])
    long_polls: int = 0
    body_bytes: int = 0
    metadata_stale: bool = False
    shed: int = 0
    work_units: int = 0
    work_units_max: float = 0.0
    loop_late_s: float = 0.0


class Exposition(Collector):
    """The metrics of one API process, in a registry of its own."""

    def __init__(self, http: HttpMetrics) -> None:
        self._http = http
        self._version = version("halfpast")
        self._observed = Observed()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def render(self, observed: Observed) -> bytes:
        """The text for a scrape."""
        self._observed = observed
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        return []  # names of the services behind us are not known beforehand

    def collect(self) -> Iterator[Metric]:
        observed = self._observed
        build = GaugeMetricFamily(
            "halfpast_build_info",
            "1; the version of this API process is in the label.",
            labels=["version"],
        )
        build.add_metric([self._version], 1)
        yield build
        yield from self._of_requests()
        yield _gauge("http_connections", "Open connections.", observed.connections)
        yield _gauge("http_long_polls", "Requests that wait.", observed.long_polls)
        yield _gauge(
            "http_body_bytes", "Bytes of bodies being received.", observed.body_bytes
        )
        yield _gauge(
            "metadata_stale", "1 while settings may be old.", observed.metadata_stale
        )
        yield from self._of_load()
        ended = CounterMetricFamily(
            "halfpast_http_connections_ended",
            "Connections that were refused or cut off.",
            labels=["reason"],
        )
        for reason, count in observed.ended.items():
            ended.add_metric([reason], count)
        yield ended
        up = GaugeMetricFamily(
            "halfpast_up", "1 if the service answers.", labels=["service"]
        )
        for name, status in observed.services.items():
            up.add_metric([name], float(status is not None))
        yield up
        for name, status in observed.services.items():
            if status is not None:
                yield from _of_service(name, status)

    def _of_load(self) -> Iterator[Metric]:
        observed = self._observed
        yield _gauge("http_work_units", "Work that is under way.", observed.work_units)
        yield _gauge(
            "http_work_units_max",
            "How much may be, before more of it is refused.",
            observed.work_units_max,
        )
        yield _gauge(
            "http_loop_late_seconds",
            "How late the event loop was just now, on average.",
            observed.loop_late_s,
        )
        refused = CounterMetricFamily(
            "halfpast_http_refused",
            "Requests that were not let in or were too much, by status and code.",
            labels=["status", "code"],
        )
        counts = Counter(self._http.refused)
        counts[503, "overloaded"] += observed.shed
        for (status, code), count in counts.items():
            refused.add_metric([str(status), code], count)
        yield refused

    def _of_requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "halfpast_http_requests",
            "Answers, by route and class of status.",
            labels=["method", "route", "status"],
        )
        seconds = HistogramMetricFamily(
            "halfpast_http_request_seconds",
            "Time from the headers to the answer, by route.",
            labels=["method", "route"],
        )
        for route in self._http.all():
            if not any(route.by_class):
                continue
            labels = [route.method, route.template]
            for number, count in enumerate(route.by_class):
                if count:
                    requests.add_metric([*labels, f"{number}xx"], count)
            seconds.add_metric(labels, _cumulated(route.buckets), route.seconds)
        yield requests
        yield seconds


def _cumulated(buckets: Sequence[int]) -> list[tuple[str, float]]:
    total = 0
    found: list[tuple[str, float]] = []
    for bound, count in zip((*BUCKETS_S, "+Inf"), buckets, strict=True):
        total += count
        found.append((str(bound), total))
    return found


def _gauge(name: str, documentation: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"halfpast_{name}", documentation, value=value)


def _of_service(service: str, status: BrokerStatus) -> Iterator[Metric]:
    # A counter and a gauge may share a stem: `parked_total` and `parked`.
    families: dict[tuple[str, str], Metric] = {}
    histograms = {
        name.partition("_bucket{")[0] for name in status.counters if "_bucket{" in name
    }
    for values, kind in ((status.counters, "counter"), (status.gauges, "gauge")):
        for text, value in values.items():
            match = _NAME.fullmatch(text)
            if match is None:
                continue
            name, labels = match[1], dict(_LABEL.findall(match[2] or ""))
            family, type_ = _family_of(name, kind, histograms)
            metric = families.get((family, type_))
            if metric is None:
                words = family.replace("_", " ")
                known_as = family if type_ == "histogram" else name
                documentation = help_for(service, known_as, words)
                metric = Metric(f"halfpast_{family}", documentation, type_)
                families[family, type_] = metric
            is_total = type_ == "counter" and not name.endswith("_total")
            sample = f"halfpast_{name}{'_total' if is_total else ''}"
            metric.add_sample(sample, labels, value)
    yield from families.values()


def _family_of(name: str, kind: str, histograms: set[str]) -> tuple[str, str]:
    for part in _HISTOGRAM_PARTS:
        base = name.removesuffix(part)
        if base != name and base in histograms:
            return base, "histogram"
    if kind == "counter":
        return name.removesuffix("_total"), "counter"
    return name, "gauge"
