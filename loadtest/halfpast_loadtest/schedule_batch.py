"""Bench schedule-batch: durable batches of 500 delayed events, JSON and msgpack."""

from halfpast_loadtest.batch_formats import measure_formats
from halfpast_loadtest.bench_result import BenchResult
from halfpast_loadtest.postgres_baseline import add_insert_rate
from halfpast_loadtest.request_set import (
    batch_requests,
    bodies,
    created_in_batch,
    far_ahead,
)
from halfpast_loadtest.write_bench import Load, ScheduleSettings

NAME = "schedule-batch"
TOPIC = "bench-schedule"
DEFAULTS = ScheduleSettings(callers=4, events_per_request=500)


async def measure(settings: ScheduleSettings) -> BenchResult:
    """Rate, latency and CPU of scheduling in batches, in both formats."""

    def load_of(packed: bool) -> Load:
        size = settings.events_per_request
        datas = bodies(settings.body_bytes, size * 40)
        return Load(
            requests=batch_requests(
                TOPIC, datas, size, far_ahead(settings.due), packed=packed
            ),
            count_accepted=created_in_batch,
            topics=(TOPIC,),
            scheduled=True,
        )

    result = await measure_formats(NAME, settings, load_of)
    if settings.baseline and settings.postgres:
        await add_insert_rate(result, settings, tuple(result.parts))
    return result
