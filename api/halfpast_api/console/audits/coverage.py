"""What has been audited: which series of windows there are, up to when, by whom."""

from typing import Final

import msgspec
from sqlalchemy import Connection, func, select, union

from halfpast_api.console.audits import reading
from halfpast_spark import result_tables as tables

RUNS_SHOWN: Final = 10


class Run(msgspec.Struct):
    """A batch run. `gaps`: what it could not see, as texts."""

    run_id: str
    source: str
    read_from: str
    window_ms: int
    from_ms: int
    to_ms: int
    horizon_ms: int
    events: int
    started_ms: int
    finished_ms: int
    gaps: list[str]


class Stream(msgspec.Struct):
    """A streaming job."""

    name: str
    window_ms: int
    horizon_ms: int
    events: int
    updated_ms: int


_RUN: Final = Run.__struct_fields__
_STREAM: Final = Stream.__struct_fields__


class Coverage(msgspec.Struct):
    """`series`: the lengths of windows, the one audited last first."""

    series: list[int]
    runs: list[Run]
    streams: list[Stream]

    @property
    def horizon_ms(self) -> int | None:
        """Up to when the log has been seen."""
        seen = [it.horizon_ms for it in self.runs]
        seen += [it.horizon_ms for it in self.streams]
        return max(seen, default=None)

    @property
    def gaps(self) -> list[str]:
        """What the last run could not see."""
        return self.runs[0].gaps if self.runs else []


def read_coverage(connection: Connection) -> Coverage:
    """Two small queries."""
    newest = select(*(tables.runs.c[name] for name in _RUN))
    newest = newest.order_by(tables.runs.c.finished_ms.desc()).limit(RUNS_SHOWN)
    runs = [
        msgspec.convert(dict(zip(_RUN, [*row[:-1], _texts(row[-1])], strict=True)), Run)
        for row in reading.rows_of(connection, newest)
    ]
    active = select(*(tables.streams.c[name] for name in _STREAM))
    active = active.order_by(tables.streams.c.updated_ms.desc())
    streams = [Stream(*row) for row in reading.rows_of(connection, active)]
    marks = [(it.finished_ms, it.window_ms) for it in runs]
    marks += [(it.updated_ms, it.window_ms) for it in streams]
    series = list(dict.fromkeys(it for _, it in sorted(marks, reverse=True)))
    return Coverage(series, runs, streams)


def newest_end(connection: Connection, window_ms: int) -> int | None:
    """Where the last window of this length ends; it may be still to come."""
    ends = union(
        *(
            select(func.max(it.c.window_start_ms)).where(it.c.window_ms == window_ms)
            for it in (tables.on_time, tables.transactions, tables.end_to_end)
        )
    )
    starts = [
        start for (start,) in reading.rows_of(connection, ends) if start is not None
    ]
    return max(starts) + window_ms if starts else None


def _texts(text: str) -> list[str]:
    try:
        return msgspec.json.decode(text, type=list[str])
    except msgspec.MsgspecError:
        return [text] if text else []
