"""The made-up event of a test: like one that was just stored, under a fresh id."""

import uuid_utils

from halfpast_api.push.envelope import Message
from halfpast_core_store.record import Record, RecordFlag, RecordKind

TEST_PROPERTY = "halfpast_test"


def sample_message(namespace: str, topic: str, data: bytes, now_ms: int) -> Message:
    """`data` is JSON."""
    record = Record(
        kind=RecordKind.NORMAL,
        flags=RecordFlag.JSON,
        attempt=0,
        topic_id=0,
        group_id=0,
        event_id=uuid_utils.uuid7().bytes,
        born_ms=now_ms,
        due_ms=0,
        tag_hash=0,
        version=0,
        queue_id=0,
        key=b"",
        tag=b"",
        properties=b"",
        body=data,
    )
    properties = {TEST_PROPERTY: "true"}
    return Message(
        namespace=namespace,
        topic=topic,
        stored_ms=now_ms,
        record=record,
        properties=properties,
    )
