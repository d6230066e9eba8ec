"""Messages of a transaction become HALF records.

A HALF is what the final record will be, but for its kind and its time: a delay
begins with the commit, which is not known yet (`halfpast_txn.half.released` turns
one into the other). Everything that is checked when an event is published is
checked here, since a commit can refuse nothing any more.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from halfpast_api.encoding import (
    TAILS,
    Encoded,
    EventEncoder,
    Row,
    Seed,
    Wrong,
    encode_rows,
)
from halfpast_api.reading import Format
from halfpast_api.refusals import refuse_all
from halfpast_api.times import NS_PER_MS
from halfpast_api.topic_directory import Topic
from halfpast_core_store.record import DUE_AT, DUE_MS, RecordFlag, RecordKind

_HALF: Final = bytes((RecordKind.HALF,))
_NO_TIME: Final = DUE_MS.pack(0)
_AFTER_COMMIT: Final = int(RecordFlag.AFTER_COMMIT)
_DELIVER_AT: Final = 5  # of a Row


def encode_halves(
    rows: Iterable[Row],
    topics: Mapping[str, Topic],
    wrong_topics: Mapping[str, Exception],
    seed: Seed,
    form: Format,
    first_index: int = 0,
) -> list[bytes]:
    """The messages of one transaction, of which `first_index` came before.

    All of them or none: raises Refusal, with pointers into `/messages`.
    `seed.base_id` is the transaction's id.
    """
    encoded = Encoded()
    halves: list[bytes] = []
    encode_rows(
        zip(rows, islice(TAILS, first_index + 1, None), strict=False),
        lambda topic: HalfEncoder(topic, seed, form, halves),
        encoded,
        topics,
        Wrong(wrong_topics),
    )
    if encoded.refusals:
        why = f"{len(encoded.refusals)} of the messages cannot be"
        raise refuse_all(encoded.refusals, "/messages", why)
    return halves


class HalfEncoder(EventEncoder):
    """Encodes messages of one transaction that go to one topic; the records go to
    `halves`."""

    __slots__ = ("_halves", "_scheduled")

    def __init__(
        self, topic: Topic, seed: Seed, form: Format, halves: list[bytes]
    ) -> None:
        self._halves = halves
        self._scheduled: list[bytes] = []
        super().__init__(topic, seed, form, self._scheduled)
        # A delay is a difference of due times. So that none is cut when both are
        # rounded up, acceptance is a whole millisecond here.
        self._accepted_ns = self._now_ms * NS_PER_MS

    def add(self, row: Row, tail: bytes) -> int:
        """Encode one message. Gives when it would be due without a transaction."""
        due = super().add(row, tail)
        if not due:
            (record,) = self._runs.popitem()[1]
            self._halves.append(record[:4] + _HALF + record[5:])
            return due
        record = self._scheduled.pop()
        if row[_DELIVER_AT] is not None:
            self._halves.append(record[:4] + _HALF + record[5:])
            return due
        flags, due_ms = record[5], _NO_TIME
        if delay_ms := due - self._now_ms:
            flags |= _AFTER_COMMIT
            due_ms = DUE_MS.pack(delay_ms)
        half = (
            record[:4],
            _HALF,
            bytes((flags,)),
            record[6:DUE_AT],
            due_ms,
            record[DUE_AT + 8 :],
        )
        self._halves.append(b"".join(half))
        return due
