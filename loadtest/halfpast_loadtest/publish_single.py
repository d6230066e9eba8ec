"""Bench publish-single: one durable event per request, 16 callers."""

from halfpast_loadtest.bench_result import BenchResult, settings_of
from halfpast_loadtest.request_set import (
    bodies,
    immediate,
    one_if_created,
    single_requests,
)
from halfpast_loadtest.write_bench import Load, WriteSettings, measure_writes

NAME = "publish-single"
TOPIC = "bench-publish"
DEFAULTS = WriteSettings()


async def measure(settings: WriteSettings) -> BenchResult:
    """Rate, latency and CPU of publishing over plain HTTP."""
    load = Load(
        requests=single_requests(TOPIC, bodies(settings.body_bytes, 2000), immediate),
        count_accepted=one_if_created,
        topics=(TOPIC,),
        scheduled=False,
    )
    result = await measure_writes(NAME, settings, load)
    result.settings = settings_of(settings)
    return result
