"""Hand-made events for tests of the audits."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from halfpast_spark.event_schema import COLUMN_NAMES, KINDS, NEVER_NULL, ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC_IDS = {"orders": 1024, "bills": 1025, "letters": 1026, "": 0}
BLANK: dict[str, Any] = {
    "topic": "orders",
    "queue": 0,
    "from_check": False,
    "forced": False,
    "size": 2,
}


def id_text(at_ms: int, number: int, tail: int = 0) -> str:
    """An event id made at this moment; `tail` are its last two bytes."""
    digits = f"{at_ms:012x}7000{number:012x}{tail:04x}"
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return "-".join(parts)


class EventLine:
    """Events in the order of a log: each frame is stored 100 bytes after the last."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._position = 0

    def add(self, stored_ms: int, *events: dict[str, Any]) -> None:
        """One frame."""
        self._position += 100
        for number, event in enumerate(events):
            assert event["kind"] in KINDS
            topic = event.get("topic", BLANK["topic"])
            row = {
                **BLANK,
                "position": self._position,
                "number": number,
                "stored_ms": stored_ms,
                "born_ms": stored_ms,
                "topic_id": TOPIC_IDS[topic],
                **event,
            }
            assert NEVER_NULL <= row.keys() <= set(COLUMN_NAMES)
            self.rows.append(row)

    def frame(self, spark: "SparkSession") -> "DataFrame":
        return events_frame(spark, self.rows)


def events_frame(spark: "SparkSession", rows: Iterable[dict[str, Any]]) -> "DataFrame":
    """The events as Spark has them; what is not given is null."""
    told = [tuple(row.get(name) for name in COLUMN_NAMES) for row in rows]
    frame = cast(Any, spark).createDataFrame(told, ddl())
    return cast("DataFrame", frame)
