"""A small stand-in for Halfpast: enough of its HTTP API to prove the drivers right.

    python -m tests.acceptance.fake_server dev --data FOLDER --port N [--fault NAME]

It keeps each change as one line of a file, so that it survives SIGKILL. Faults
break one promise each, and a driver that does not notice is worthless:
    amnesia    acknowledges without keeping anything
    early      delivers 20 ms before the due time
    double     fires every tenth timer twice
    deaf       answers `cancelled`, and delivers all the same
"""

import argparse
import asyncio
import base64
import hashlib
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from tests.acceptance.fake_store import FAULTS, FakeStore, Op

from halfpast_loadtest.http_wire import MSGPACK
from halfpast_loadtest.message import now_ms, to_ms, to_rfc3339


class FakeApi:
    """The routes."""

    def __init__(self, store: FakeStore) -> None:
        self._store = store
        self._hidden: dict[tuple[str, str, int, int], tuple[str, float]] = {}
        self._attempts: dict[tuple[str, str, int, int], int] = {}

    def application(self) -> web.Application:
        application = web.Application(client_max_size=2**26)
        application.add_routes(
            [
                web.get("/readyz", self.ready),
                web.post("/v1/events:batch", self.batch),
                web.post("/v1/topics/{topic}/events", self.publish),
                web.put("/v1/topics/{topic}/events/{key}", self.put),
                web.get("/v1/events/{id}", self.get),
                web.patch("/v1/events/{id}", self.move),
                web.delete("/v1/events/{id}", self.cancel),
                web.post("/v1/events/{id}:deliver-now", self.deliver_now),
                web.get("/v1/topics/{topic}/queues/{queue}/messages", self.pull),
                web.post("/v1/groups/{group}:pop", self.pop),
                web.post("/v1/groups/{group}:ack", self.ack),
            ]
        )
        return application

    async def ready(self, _: web.Request) -> web.Response:
        return answer(200, {"status": "ready"})

    async def publish(self, request: web.Request) -> web.Response:
        topic, body = request.match_info["topic"], await request.read()

        def made() -> list[dict[str, Any]]:
            return [self._event(topic, decode(body))]

        events = self._once(request.headers.get("Idempotency-Key"), body, made)
        if events is None:
            return problem(422, "idempotency_key_reused")
        return answer(201, view(events[0]))

    async def batch(self, request: web.Request) -> web.Response:
        body, packed = await request.read(), request.content_type == MSGPACK

        def made() -> list[dict[str, Any]]:
            entries = decode_packed(body) if packed else decode(body)["events"]
            return [self._event(entry["topic"], entry) for entry in entries]

        events = self._once(request.headers.get("Idempotency-Key"), body, made)
        if events is None:
            return problem(422, "idempotency_key_reused")
        results = {
            "results": [
                {"index": index, "status": 201, **view(event)}
                for index, event in enumerate(events)
            ]
        }
        if not packed:
            return answer(200, results)
        return web.Response(body=msgspec.msgpack.encode(results), content_type=MSGPACK)

    def _once(
        self, key: str | None, body: bytes, made: Callable[[], list[dict[str, Any]]]
    ) -> list[dict[str, Any]] | None:
        """Keep new events, or find those that the key made; None for another body."""
        fingerprint = hashlib.sha256(body).hexdigest()
        if key is not None and key in self._store.answers:
            before, event_ids = self._store.answers[key]
            if before != fingerprint:
                return None
        else:
            events = made()
            event_ids = [event["id"] for event in events]
            operations = [operation_of(event) for event in events]
            if key is not None:
                operations.append(["answer", key, fingerprint, event_ids])
            self._store.commit(operations)
        return [self._store.events[event_id] for event_id in event_ids]

    async def put(self, request: web.Request) -> web.Response:
        topic, key = request.match_info["topic"], request.match_info["key"]
        event = self._event(topic, {**decode(await request.read()), "key": key})
        event["upsert"] = True
        before = self._store.events.get(self._store.by_key.get((topic, key), ""))
        status = 201
        if before is not None and before["state"] == "scheduled":
            event |= {"id": before["id"], "version": before["version"] + 1}
            status = 200
        self._store.commit([["schedule", event]])
        return answer(status, view(self._store.events[event["id"]]))

    async def get(self, request: web.Request) -> web.Response:
        event = self._store.events.get(request.match_info["id"])
        return (
            problem(404, "unknown_event") if event is None else answer(200, view(event))
        )

    async def move(self, request: web.Request) -> web.Response:
        return self._moved(
            request.match_info["id"], due_of(decode(await request.read()))
        )

    async def deliver_now(self, request: web.Request) -> web.Response:
        return self._moved(request.match_info["id"], now_ms())

    def _moved(self, event_id: str, due_ms: int | None) -> web.Response:
        event = self._store.events.get(event_id)
        if event is None:
            return problem(404, "unknown_event")
        if event["state"] != "scheduled":
            return problem(409, f"already_{event['state']}")
        version = event["version"] + 1
        self._store.commit(
            [["schedule", {**event, "due_ms": due_ms, "version": version}]]
        )
        return answer(200, view(self._store.events[event_id]))

    async def cancel(self, request: web.Request) -> web.Response:
        event = self._store.events.get(request.match_info["id"])
        if event is None:
            return problem(404, "unknown_event", outcome="not_found")
        if event["state"] in ("delivered", "stored"):
            return problem(409, "already_delivered", outcome="too_late")
        self._store.commit([["cancel", event["id"]]])
        return answer(200, {"outcome": "cancelled"})

    async def pull(self, request: web.Request) -> web.Response:
        topic, queue = request.match_info["topic"], int(request.match_info["queue"])
        offset, count = (
            int(request.query["offset"]),
            int(request.query.get("max", "32")),
        )
        deadline = time.monotonic() + int(request.query.get("wait_ms", "0")) / 1000
        while True:
            queues = self._store.queues.get(topic)
            if queues is None or queue >= len(queues):
                return problem(404, "unknown_queue")
            held = queues[queue][offset : offset + count]
            if held or time.monotonic() >= deadline:
                break
            await self._change(deadline)
        page = {"next_offset": offset + len(held), "min_offset": 0}
        page |= {"max_offset": len(queues[queue])}
        return answer(200, page | {"messages": [message(one) for one in held]})

    async def pop(self, request: web.Request) -> web.Response:
        group, wanted = request.match_info["group"], decode(await request.read())
        deadline = time.monotonic() + wanted.get("wait_ms", 0) / 1000
        while True:
            held = self._hide(group, wanted)
            if held or time.monotonic() >= deadline:
                return answer(200, {"messages": held})
            await self._change(deadline)

    def _hide(self, group: str, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        held: list[dict[str, Any]] = []
        for queue in self._store.queues.get(wanted["topic"], []):
            for one in queue:
                place = (group, wanted["topic"], one["queue"], one["offset"])
                if len(held) == wanted.get("max", 32) or place in self._store.acked:
                    continue
                receipt, until = self._hidden.get(place, ("", 0.0))
                if until > time.monotonic():
                    continue
                receipt = msgspec.json.encode([*place, uuid.uuid4().hex]).hex()
                until = time.monotonic() + wanted.get("invisible_ms", 60_000) / 1000
                self._hidden[place] = (receipt, until)
                held.append({**message(one), "receipt": receipt})
        return held

    async def ack(self, request: web.Request) -> web.Response:
        results: list[dict[str, Any]] = []
        operations: list[Op] = []
        for index, receipt in enumerate(decode(await request.read())["receipts"]):
            group, topic, queue, offset, _ = msgspec.json.decode(bytes.fromhex(receipt))
            operations.append(["ack", group, topic, queue, offset])
            results.append({"index": index, "status": 200})
        self._store.commit(operations)
        return answer(200, {"results": results})

    async def _change(self, deadline: float) -> None:
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                await self._store.changed.wait()
        except TimeoutError:
            return

    def _event(self, topic: str, entry: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": str(uuid.uuid4()),
            "topic": topic,
            "key": entry.get("key"),
            "data": entry["data"],
            "due_ms": due_of(entry),
            "version": 1,
        }


def decode(text: bytes) -> dict[str, Any]:
    """A body, `data` of each event kept as base64 of its bytes."""
    raw = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    decoded = {key: msgspec.json.decode(value) for key, value in raw.items()}
    if "data" in raw:
        decoded["data"] = base64.b64encode(bytes(raw["data"])).decode()
    if "events" in raw:
        entries = msgspec.json.decode(raw["events"], type=list[msgspec.Raw])
        decoded["events"] = [decode(bytes(entry)) for entry in entries]
    return decoded


def decode_packed(body: bytes) -> list[dict[str, Any]]:
    """The events of a msgpack batch, `data` likewise."""
    entries: list[dict[str, Any]] = msgspec.msgpack.decode(body)["events"]
    for entry in entries:
        entry["data"] = base64.b64encode(entry["data"]).decode()
    return entries


def due_of(entry: dict[str, Any]) -> int | None:
    if entry.get("deliver_at") is not None:
        return to_ms(datetime.fromisoformat(entry["deliver_at"]))
    if entry.get("delay_ms") is not None:
        return now_ms() + int(entry["delay_ms"])
    return None


def operation_of(event: dict[str, Any]) -> Op:
    if event["due_ms"] is None:
        return ["store", event, now_ms()]
    return ["schedule", event]


def view(event: dict[str, Any]) -> dict[str, Any]:
    due_ms = event["due_ms"]
    deliver_at = None if due_ms is None else to_rfc3339(due_ms)
    return {"id": event["id"], "state": event["state"], "deliver_at": deliver_at}


def message(one: dict[str, Any]) -> dict[str, Any]:
    shown = {name: one[name] for name in ("id", "topic", "queue", "offset", "key")}
    shown["data"] = msgspec.Raw(base64.b64decode(one["data"]))
    shown["stored_at"] = to_rfc3339(one["stored_ms"])
    return shown | {"deliver_at": view({**one, "state": ""})["deliver_at"]}


def answer(status: int, body: object) -> web.Response:
    encoded = msgspec.json.encode(body)
    return web.Response(status=status, body=encoded, content_type="application/json")


def problem(status: int, code: str, **more: object) -> web.Response:
    return answer(status, {"status": status, "code": code, **more})


async def serve(arguments: argparse.Namespace) -> None:
    store = FakeStore(Path(arguments.data), arguments.fault)
    runner = web.AppRunner(FakeApi(store).application(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", arguments.port, reuse_address=True).start()
    await store.fire_for_ever()


def supervise() -> None:
    """`up`: the server as a child named api, started again when it dies."""
    words = ["api" if word == "up" else word for word in sys.argv[1:]]
    while True:
        subprocess.run([sys.executable, "-m", __spec__.name, *words], check=False)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=("dev", "up", "api"))
    parser.add_argument("--data", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--fault", choices=FAULTS, default="")
    arguments = parser.parse_args()
    if arguments.mode == "up":
        supervise()
    asyncio.run(serve(arguments))


if __name__ == "__main__":
    main()
