"""What lies in the queues after a bench, against what was promised.

Millions of messages are read, so a page is decoded no further than the three things
that are looked at: the id, when it was stored, and when it was due.
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from halfpast_loadtest.errors import RequestFailed
from halfpast_loadtest.event_request import problem_code
from halfpast_loadtest.message import to_ms
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.progress import Progress
from halfpast_loadtest.queue_reader import NO_SUCH, QUEUE_COUNT_MAX

PAGE_SIZE = 1000


class ExpectedIds:
    """The ids that were acknowledged, each to be seen once."""

    def __init__(self) -> None:
        self._open: set[bytes] = set()
        self.duplicates = 0

    def __len__(self) -> int:
        """How many were not seen yet."""
        return len(self._open)

    def add(self, ids: Iterable[str]) -> None:
        self._open.update(map(_packed, ids))

    def see(self, event_id: str) -> None:
        """One was delivered: a duplicate, if it was before, or never acknowledged."""
        packed = _packed(event_id)
        if packed in self._open:
            self._open.remove(packed)
        else:
            self.duplicates += 1


@dataclass(slots=True)
class Delivered:
    """Times of the messages of a topic (epoch ms), in the order they were read."""

    due_ms: "array[int]" = field(default_factory=lambda: array("q"))
    stored_ms: "array[int]" = field(default_factory=lambda: array("q"))

    @property
    def early(self) -> int:
        times = zip(self.due_ms, self.stored_ms, strict=True)
        return sum(stored < due for due, stored in times)

    def late_ms(self, due_from_ms: int = 0, due_to_ms: int = 2**62) -> list[float]:
        """The lateness of those that were due in this time, both ends included."""
        times = zip(self.due_ms, self.stored_ms, strict=True)
        return [
            stored - due for due, stored in times if due_from_ms <= due <= due_to_ms
        ]


async def read_delivered(
    client: PatientClient, topic: str, expected: ExpectedIds
) -> Delivered:
    """Read a topic's queues from their starts; all its messages were delayed ones."""
    found = Delivered()
    progress = Progress(f"reading {topic}", len(expected))
    for queue in range(QUEUE_COUNT_MAX):
        path = f"/v1/topics/{topic}/queues/{queue}/messages"
        offset = 0
        while True:
            query = f"?offset={offset}&max={PAGE_SIZE}"
            try:
                answer = await client.request("GET", path + query)
            except RequestFailed as failure:
                if problem_code(failure.body) not in NO_SUCH:
                    raise
                progress.end()
                return found
            page = _PAGE.decode(answer.body)
            if not page.messages:
                break
            for one in page.messages:
                expected.see(one.id)
                found.due_ms.append(to_ms(one.deliver_at))
                found.stored_ms.append(to_ms(one.stored_at))
            offset = page.next_offset
            progress.at(len(found.due_ms))
    return found


def _packed(event_id: str) -> bytes:
    return bytes.fromhex(event_id.replace("-", ""))


class _Message(msgspec.Struct):
    id: str
    stored_at: datetime
    deliver_at: datetime


class _Page(msgspec.Struct):
    messages: list[_Message]
    next_offset: int


_PAGE = msgspec.json.Decoder(_Page)
