"""A batch bench in both body formats, one after the other."""

from collections.abc import Callable

from halfpast_loadtest.bench_result import BenchResult, figures, settings_of
from halfpast_loadtest.write_bench import Load, WriteSettings, measure_writes


async def measure_formats(
    name: str, settings: WriteSettings, load_of: Callable[[bool], Load]
) -> BenchResult:
    """JSON and msgpack as parts; the figures on top are those of JSON."""
    json = await measure_writes(name, settings, load_of(False))
    packed = await measure_writes(name, settings, load_of(True))
    json.parts = {"json": figures(json), "msgpack": figures(packed)}
    json.settings = {**settings_of(settings), "format": "json"}
    return json
