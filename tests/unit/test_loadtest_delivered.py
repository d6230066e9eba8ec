"""Queues against the ids that were acknowledged."""

from collections.abc import Mapping

import msgspec
import pytest

from halfpast_loadtest.delivered import Delivered, ExpectedIds, read_delivered
from halfpast_loadtest.errors import RequestFailed
from halfpast_loadtest.http_wire import Response
from halfpast_loadtest.message import to_rfc3339
from halfpast_loadtest.patient_client import PatientClient

IDS = [f"01a1f807-0000-7000-8000-{number:012x}" for number in range(6)]


def test_each_id_is_expected_once() -> None:
    expected = ExpectedIds()
    expected.add(IDS[:3])
    expected.see(IDS[0])
    expected.see(IDS[2])
    assert (len(expected), expected.duplicates) == (1, 0)
    expected.see(IDS[0])  # twice
    expected.see(IDS[5])  # never acknowledged
    assert (len(expected), expected.duplicates) == (1, 2)


def test_lateness_is_told_for_a_span_of_due_times() -> None:
    found = Delivered()
    for due_ms, stored_ms in ((100, 100), (200, 207), (300, 299)):
        found.due_ms.append(due_ms)
        found.stored_ms.append(stored_ms)
    assert found.late_ms() == [0, 7, -1]
    assert found.late_ms(200, 299) == [7]
    assert found.early == 1


class Queues(PatientClient):
    """Two queues in memory, three messages a page."""

    def __init__(self, queues: list[list[str]], status_at_end: int = 404) -> None:
        super().__init__("", 0)
        self._queues = queues
        self._status_at_end = status_at_end

    async def request(
        self,
        method: str,
        path: str,
        body: object = b"",
        *,
        headers: Mapping[str, str] | None = None,
        want: frozenset[int] = frozenset({200, 201}),
    ) -> Response:
        queue = int(path.split("/")[5])
        offset = int(path.partition("offset=")[2].partition("&")[0])
        if queue >= len(self._queues):
            code = "unknown_queue" if self._status_at_end == 404 else "overloaded"
            raise RequestFailed("a pull", 404, b'{"code":"%s"}' % code.encode())
        ids = self._queues[queue][offset : offset + 3]
        messages = [
            {
                "id": it,
                "stored_at": to_rfc3339(1_005),
                "deliver_at": to_rfc3339(1_000),
                "data": {"any": "thing"},
            }
            for it in ids
        ]
        page = {"messages": messages, "next_offset": offset + len(ids)}
        return Response(200, b"", msgspec.json.encode(page))


@pytest.mark.asyncio
async def test_all_queues_are_read_to_their_ends() -> None:
    expected = ExpectedIds()
    expected.add(IDS)
    found = await read_delivered(Queues([IDS[:4], [], IDS[4:]]), "t", expected)
    assert found.late_ms() == [5] * 6
    assert (len(expected), expected.duplicates) == (0, 0)


@pytest.mark.asyncio
async def test_another_refusal_is_no_end_of_the_queues() -> None:
    with pytest.raises(RequestFailed):
        await read_delivered(Queues([IDS], status_at_end=503), "t", ExpectedIds())
