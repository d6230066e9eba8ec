"""Bench schedule-single: one durable delayed event per request, 16 callers."""

from halfpast_loadtest.bench_result import BenchResult, settings_of
from halfpast_loadtest.postgres_baseline import add_insert_rate
from halfpast_loadtest.request_set import (
    bodies,
    far_ahead,
    one_if_created,
    single_requests,
)
from halfpast_loadtest.write_bench import Load, ScheduleSettings, measure_writes

NAME = "schedule-single"
TOPIC = "bench-schedule"
DEFAULTS = ScheduleSettings()


async def measure(settings: ScheduleSettings) -> BenchResult:
    """Rate, latency and CPU of scheduling over plain HTTP."""
    load = Load(
        requests=single_requests(
            TOPIC, bodies(settings.body_bytes, 2000), far_ahead(settings.due)
        ),
        count_accepted=one_if_created,
        topics=(TOPIC,),
        scheduled=True,
    )
    result = await measure_writes(NAME, settings, load)
    result.settings = settings_of(settings)
    if settings.baseline and settings.postgres:
        await add_insert_rate(result, settings)
    return result
