"""What a burst looked like: the figures of bench burst, from all that was seen."""

from typing import Any

from halfpast_loadtest.bench_result import BenchResult, with_latency
from halfpast_loadtest.delivered import Delivered, ExpectedIds
from halfpast_loadtest.latency import summarise
from halfpast_loadtest.long_poller import PullPoller
from halfpast_loadtest.memory_watch import MemoryWatch
from halfpast_loadtest.message import parse_pulled
from halfpast_loadtest.process_tree import TreeUsage
from halfpast_loadtest.server_metrics import Metrics, grown, total

STALLS_MS = (20, 50, 100)


def note_server(
    result: BenchResult, began: TreeUsage, ended: TreeUsage, count: int
) -> None:
    """Its CPU during the burst, and its memory at the end."""
    result.rss_mb = round(ended.rss_mb, 1)
    result.anonymous_mb = round(ended.anonymous_mb, 1)
    cpu_us = (ended.cpu_s - began.cpu_s) * 1e6
    result.server_cpu_us_per_message = round(cpu_us / count, 2)


def note_memory(result: BenchResult, watch: MemoryWatch) -> None:
    """At its highest, of the suite and of each process."""
    of = {name: round(mb, 1) for name, mb in watch.pss_mb_max_of.items()}
    result.parts["memory"] = {
        "pss_mb_max": round(watch.pss_mb_max, 1),
        "pss_mb_max_of": of,
    }


def note_stalls(result: BenchResult, before: Metrics, after: Metrics) -> None:
    """Stalls of the process that the Delay Server is in: how many there were between
    the two looks, and earlier; the longest ones since its start."""
    stalls: dict[str, Any] = {
        f"stalls_of_{ms}_ms": grown(
            before, after, "loop_stalls_total", f'at_least_ms="{ms}"'
        )
        for ms in STALLS_MS
    }
    earlier = total(before, "loop_stalls_total", 'at_least_ms="50"')
    stalls["stalls_of_50_ms_earlier"] = round(earlier)
    longest_ms = total(after, "loop_stall_ms_max", 'since="start"')
    busy_ms = total(after, "loop_stall_busy_ms_max")
    stalls["stall_ms_max"] = round(longest_ms, 1)
    stalls["stall_busy_ms_max"] = round(busy_ms, 1)
    result.parts["event loop"] = stalls


def note_burst(
    result: BenchResult,
    burst: Delivered,
    expected: ExpectedIds,
    base_ms: int,
    pollers: list[PullPoller],
) -> None:
    """Whether all came once and not before its time, how late, and how fast."""
    with_latency(result, summarise(burst.late_ms()))
    took_ms = max(burst.stored_ms, default=0) - base_ms
    if took_ms > 0:
        result.rate_per_s = round(len(burst.stored_ms) * 1000 / took_ms, 1)
    result.early = burst.early
    result.lost = len(expected)
    result.duplicates = expected.duplicates
    if pollers:
        arrived = summarise(late_ms for _, late_ms in _arrivals(pollers))
        result.parts["arrival - deliver_at"] = {**arrived.shown()}


def note_side(
    result: BenchResult,
    side: Delivered,
    pollers: list[PullPoller],
    base_ms: int,
    end_ms: int,
    expected: int,
) -> None:
    """The other topic before the burst and during it; what is due after its end is of
    no interest. `expected`: how many of it were due until then."""
    arrivals = list(_arrivals(pollers))
    times = {"quiet": (0, base_ms - 1), "meanwhile": (base_ms, end_ms)}
    for name, (from_ms, to_ms) in times.items():
        stored = summarise(side.late_ms(from_ms, to_ms))
        arrived = summarise(
            late_ms for due_ms, late_ms in arrivals if from_ms <= due_ms <= to_ms
        )
        shown: dict[str, Any] = {"count": stored.count, **stored.shown()}
        result.parts[f"side topic {name}"] = shown | arrived.shown("arrival_")
    lost = max(expected - len(side.late_ms(0, end_ms)), 0)
    result.early = (result.early or 0) + side.early
    result.lost = (result.lost or 0) + lost


def _arrivals(pollers: list[PullPoller]) -> list[tuple[int, float]]:
    """When each message was due, and how late it came (ms)."""
    found: list[tuple[int, float]] = []
    for poller in pollers:
        for at_ns, body in poller.arrivals:
            for message in parse_pulled(body).messages:
                assert message.due_ms is not None
                found.append((message.due_ms, at_ns / 1e6 - message.due_ms))
    return found
