"""Messages from publisher to consumer: published = stored = consumed."""

import msgspec
from sqlalchemy import Connection, func

from halfpast_api.console.audits import reading
from halfpast_api.console.audits.figures import ALL, EndToEndCounts
from halfpast_api.console.audits.scope import Scope
from halfpast_spark import result_tables as tables


class ConsumerRow(msgspec.Struct):
    """What one consumer group has settled of a topic; the times are of its slowest
    window."""

    name: str
    counts: EndToEndCounts
    worst_p99_ms: float | None
    max_ms: float | None


class FlowRow(msgspec.Struct):
    """A topic, and those who consume it."""

    topic: str
    counts: EndToEndCounts
    consumers: list[ConsumerRow]


class EndToEndSection(msgspec.Struct):
    """The topics with what is broken first."""

    topics: list[FlowRow]

    @property
    def broken(self) -> int:
        return sum(it.counts.broken for it in self.topics)

    @property
    def waiting(self) -> int:
        return sum(c.counts.waiting for it in self.topics for c in it.consumers)


def read_end_to_end(connection: Connection, scope: Scope) -> EndToEndSection:
    """One query."""
    table = tables.end_to_end
    topic = table.c.topic
    chosen = topic != ALL if scope.topic == ALL else topic == scope.topic
    extra = [func.max(table.c.consume_p99_ms), func.max(table.c.consume_max_ms)]
    flows: dict[str, FlowRow] = {}
    for (name, group), counts, more in reading.sums_by_name(
        connection,
        table,
        EndToEndCounts,
        scope,
        ["topic", "consumer_group"],
        chosen,
        extra=extra,
    ):
        flow = flows.setdefault(name, FlowRow(name, EndToEndCounts(), []))
        if group == ALL:
            flow.counts = counts
        else:
            flow.consumers.append(ConsumerRow(group, counts, *more))
    rows = sorted(flows.values(), key=lambda it: (-it.counts.broken, it.topic))
    return EndToEndSection(rows)
