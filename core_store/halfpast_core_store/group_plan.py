"""A planned change of a consumer group: records, index changes and the answer.

A plan is made against the state in memory and changes it at once, so that the next
plan sees it. It carries the records that make the change durable together with
the index entries to write when they are; the consumer is answered then.
"""

from dataclasses import dataclass, field

from .broker import Delivered, Run, SettleResult
from .group_state import ENCODER, Change, GroupState
from .record import RecordKind, decode_record, encode_record
from .topics import SYS_GROUPS, SYS_TOPICS


@dataclass(slots=True)
class Plan:
    """Records to append together, the index's changes, and the answer."""

    state: GroupState
    buries: bool = False
    """Whether there is room for dead letters."""
    records: list[bytes] = field(default_factory=lambda: [])
    changes: list[Change] = field(default_factory=lambda: [])
    delivered: list[Delivered] = field(default_factory=lambda: [])
    registry: list[bytes] = field(default_factory=lambda: [])
    dead: list[bytes] = field(default_factory=lambda: [])
    results: list[SettleResult] = field(default_factory=lambda: [])

    def add(self, kind: RecordKind, body: object) -> None:
        """Append a record to the plan and apply it to the state."""
        data = encode_record(
            kind,
            topic_id=self.state.topic_id,
            group_id=self.state.group_id,
            body=ENCODER.encode(body),
        )
        self.records.append(data)
        self.changes.extend(self.state.apply(decode_record(data)))

    def runs(self, dead_letter_topic_id: int) -> list[Run]:
        """Where the records go."""
        runs = [Run(SYS_TOPICS, 0, self.registry)] if self.registry else []
        if self.records:
            runs.append(Run(SYS_GROUPS, 0, self.records))
        if self.dead:
            runs.append(Run(dead_letter_topic_id, 0, self.dead))
        return runs
