"""What the stand-in of `fake_server.py` keeps: one line of a file for each change."""

import asyncio
import heapq
import uuid
from pathlib import Path
from typing import Any

import msgspec

from halfpast_loadtest.message import now_ms

QUEUE_COUNT = 4
FAULTS = ("amnesia", "early", "double", "deaf")
Op = list[Any]


class FakeStore:
    """All state, changed only by `apply`, so that the file replays it."""

    def __init__(self, folder: Path, fault: str) -> None:
        self.fault = fault
        self.queues: dict[str, list[list[dict[str, Any]]]] = {}
        self.events: dict[str, dict[str, Any]] = {}
        self.by_key: dict[tuple[str, str], str] = {}
        self.answers: dict[str, tuple[str, list[str]]] = {}
        self.acked: set[tuple[str, str, int, int]] = set()
        self.due: list[tuple[int, str, int]] = []
        self.changed = asyncio.Event()
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "fake.jsonl"
        for line in path.read_bytes().splitlines() if path.exists() else []:
            try:
                operations = msgspec.json.decode(line)
            except msgspec.DecodeError:
                break  # the torn last line
            for operation in operations:
                self.apply(operation)
        self._file = path.open("ab", buffering=0)

    def commit(self, operations: list[Op]) -> None:
        """Keep these changes together, then apply them."""
        if self.fault != "amnesia":
            self._file.write(msgspec.json.encode(operations) + b"\n")
        for operation in operations:
            self.apply(operation)
        self.changed.set()
        self.changed = asyncio.Event()

    def apply(self, operation: Op) -> None:
        getattr(self, f"_apply_{operation[0]}")(*operation[1:])

    def _apply_store(self, event: dict[str, Any], stored_ms: int) -> None:
        topic, key = event["topic"], event.get("key")
        queues = self.queues.setdefault(topic, [[] for _ in range(QUEUE_COUNT)])
        number = uuid.UUID(event["id"]).int if key is None else sum(key.encode())
        queue = queues[number % QUEUE_COUNT]
        stored = {**event, "stored_ms": stored_ms, "offset": len(queue)}
        queue.append({**stored, "queue": number % QUEUE_COUNT})
        state = "stored" if event["due_ms"] is None else "delivered"
        self.events[event["id"]] = {**event, "state": state}

    def _apply_schedule(self, event: dict[str, Any]) -> None:
        self.events[event["id"]] = {**event, "state": "scheduled"}
        heapq.heappush(self.due, (event["due_ms"], event["id"], event["version"]))
        if event.get("upsert"):
            self.by_key[event["topic"], event["key"]] = event["id"]

    def _apply_cancel(self, event_id: str) -> None:
        self.events[event_id]["state"] = "cancelled"

    def _apply_answer(self, key: str, fingerprint: str, event_ids: list[str]) -> None:
        self.answers[key] = (fingerprint, event_ids)

    def _apply_ack(self, group: str, topic: str, queue: int, offset: int) -> None:
        self.acked.add((group, topic, queue, offset))

    async def fire_for_ever(self) -> None:
        """Deliver what is due, each batch as one change."""
        ahead_ms = 20 if self.fault == "early" else 0
        while True:
            operations: list[Op] = []
            now = now_ms()
            while self.due and self.due[0][0] <= now + ahead_ms:
                _, event_id, version = heapq.heappop(self.due)
                event = self.events[event_id]
                wanted = "scheduled", "cancelled" if self.fault == "deaf" else ""
                if event["state"] in wanted and event["version"] == version:
                    fired = {key: event[key] for key in event if key != "state"}
                    operations.append(["store", fired, now])
                    if self.fault == "double" and event["id"][-1] == "0":
                        operations.append(["store", fired, now])
            if operations:
                self.commit(operations)
            await asyncio.sleep(0.001)
