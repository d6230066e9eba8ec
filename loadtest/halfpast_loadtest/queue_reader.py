"""Everything that lies in the log, read queue by queue from offset 0."""

from collections.abc import Iterable

import msgspec

from halfpast_loadtest.errors import RequestFailed
from halfpast_loadtest.event_request import problem_code
from halfpast_loadtest.message import Message, parse_pulled
from halfpast_loadtest.patient_client import PatientClient

PAGE_SIZE = 500
QUEUE_COUNT_MAX = 1024
NO_SUCH = frozenset({"unknown_queue", "unknown_topic"})


class QueueEnd(msgspec.Struct):
    """Which offsets a queue holds: `min_offset` to `max_offset`, not included."""

    min_offset: int
    max_offset: int


async def read_topics(client: PatientClient, topics: Iterable[str]) -> list[Message]:
    """All messages of all queues of these topics, each queue in offset order."""
    messages: list[Message] = []
    for topic in topics:
        for queue in range(QUEUE_COUNT_MAX):
            held = await read_queue(client, topic, queue)
            if held is None:
                break
            messages += held
    return messages


async def read_queue(
    client: PatientClient, topic: str, queue: int
) -> list[Message] | None:
    """All messages of one queue, or None if the topic has no such queue."""
    messages: list[Message] = []
    offset = 0
    while True:
        path = f"/v1/topics/{topic}/queues/{queue}/messages"
        try:
            answer = await client.request(
                "GET", f"{path}?offset={offset}&max={PAGE_SIZE}"
            )
        except RequestFailed as failure:
            if problem_code(failure.body) in NO_SUCH:
                return None
            raise
        page = parse_pulled(answer.body)
        if not page.messages:
            return messages
        messages += page.messages
        offset = page.next_offset


async def count_messages(client: PatientClient, topics: Iterable[str]) -> int:
    """How many messages these topics hold, by the ends of their queues."""
    total = 0
    for topic in topics:
        for queue in range(QUEUE_COUNT_MAX):
            path = f"/v1/topics/{topic}/queues/{queue}/messages?offset=0&max=1"
            try:
                answer = await client.request("GET", path)
            except RequestFailed as failure:
                if problem_code(failure.body) in NO_SUCH:
                    break
                raise
            end = msgspec.json.decode(answer.body, type=QueueEnd)
            total += end.max_offset - end.min_offset
    return total
