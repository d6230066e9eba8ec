"""Where an audit gets its events from, and how far it can see there."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .data_source import FORMAT, HalfpastSource
from .errors import ForeignExport
from .event_schema import KINDS, ddl
from .export_manifest import Manifest
from .exported import need_export
from .job_errors import NothingToAudit
from .log_folder import LogFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG = "log"
PARQUET = "parquet"
BOTH = "both"
COLUMNS = (
    "kind",
    "position",
    "number",
    "stored_ms",
    "born_ms",
    "due_ms",
    "topic_id",
    "topic",
    "queue",
    "offset",
    "event_id",
    "transaction_id",
    "group",
    "check",
    "from_check",
    "forced",
    "outcome",
    "reason",
)
UNUSED_KINDS = frozenset({"recurring", "recurring_ended", "operation"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSource:
    """The events as they are at one moment, however often they are read.

    All that was stored before `horizon_ms` lies before `horizon_position`, and so is
    in `events`, which begin at `start_position`.
    """

    read_from: str
    place: str
    store_id: str
    events: "DataFrame"
    start_position: int
    horizon_position: int
    horizon_ms: int


def open_log(spark: "SparkSession", folder: str) -> EventSource:
    """The log of a store, up to where it is durable now.

    Raises NoStore, NothingToAudit, and what the store raises for a folder that is of a
    newer format or something else.
    """
    horizon = LogFolder(folder).horizon()
    if horizon.end <= horizon.start:
        raise NothingToAudit(folder, "the log is empty")
    return EventSource(
        read_from=LOG,
        place=folder,
        store_id=horizon.store_id,
        events=_log_events(spark, folder, horizon.start, horizon.end),
        start_position=horizon.start,
        horizon_position=horizon.end,
        horizon_ms=horizon.as_of_ms,
    )


def open_parquet(spark: "SparkSession", folder: str) -> EventSource:
    """What has been exported of a store: its closed segments.

    Raises NothingToAudit, ForeignExport.
    """
    manifest = need_export(folder)
    return EventSource(
        read_from=PARQUET,
        place=folder,
        store_id=manifest.store_id,
        events=_exported_events(spark, folder, manifest),
        start_position=manifest.start,
        horizon_position=manifest.end,
        horizon_ms=manifest.as_of_ms,
    )


def open_both(spark: "SparkSession", store: str, exported: str) -> EventSource:
    """What has been exported, and the rest from the log itself.

    Raises NoStore, NothingToAudit, ForeignExport.
    """
    manifest = need_export(exported)
    horizon = LogFolder(store).horizon()
    if horizon.store_id != manifest.store_id:
        why = f"it is of the store {manifest.store_id}, and {store} is another one"
        raise ForeignExport(exported, why)
    events = _exported_events(spark, exported, manifest)
    if horizon.end > manifest.end:
        rest = _log_events(spark, store, manifest.end, horizon.end)
        events = events.unionByName(rest)
    return EventSource(
        read_from=BOTH,
        place=f"{exported} and {store}",
        store_id=manifest.store_id,
        events=events,
        start_position=manifest.start,
        horizon_position=max(horizon.end, manifest.end),
        horizon_ms=max(horizon.as_of_ms, manifest.as_of_ms),
    )


def _log_events(
    spark: "SparkSession", folder: str, start: int, end: int
) -> "DataFrame":
    spark.dataSource.register(HalfpastSource)
    return (
        spark.read.format(FORMAT)
        .schema(ddl(COLUMNS))
        .option("kinds", ",".join(kind for kind in KINDS if kind not in UNUSED_KINDS))
        .option("start", str(start))
        .option("end", str(end))
        .load(folder)
    )


def _exported_events(
    spark: "SparkSession", folder: str, manifest: Manifest
) -> "DataFrame":
    """The files that the manifest names: others are unfinished, or were replaced."""
    paths = [str(Path(folder).absolute() / file.path) for file in manifest.files]
    events = spark.read.schema(ddl(COLUMNS)).parquet(*paths)
    return events.where(~events["kind"].isin(*UNUSED_KINDS))
