"""A server in memory that answers as the API promises, and fails on request.

The SDK's tests run against this one and against the real one. Only this one can
lose an answer at a chosen moment.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from itertools import count
from typing import Any
from uuid import UUID

import msgspec
from aiohttp import web

QUEUE_COUNT = 2
Json = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Fault(Enum):
    """What goes wrong with one request."""

    OVERLOADED = auto()  # 503 with Retry-After: 0
    QUOTA = auto()  # 429
    LOST_REQUEST = auto()  # connection cut before anything is done
    LOST_ANSWER = auto()  # done, but the connection is cut before the answer
    BAD_GATEWAY = auto()  # a proxy's 502 in HTML
    NONSENSE = auto()  # 200, but not JSON


class Refused(Exception):
    """Becomes a problem+json answer."""

    def __init__(self, status: int, code: str, **more: object) -> None:
        super().__init__(status, code)
        self.status = status
        self.body: Json = {
            "type": "about:blank",
            "title": code.replace("_", " "),
            "status": status,
            "detail": f"refused: {code}",
            "code": code,
            "retryable": status in (429, 503),
            "request_id": "r-1",
            "errors": [],
            **more,
        }


@dataclass(slots=True)
class Stored:
    """An event, from being published to being delivered."""

    id: str
    topic: str
    body: Json
    state: str
    due: datetime | None
    version: int = 1
    timer: asyncio.TimerHandle | None = None
    timeline: list[Json] = field(default_factory=list[Json])
    delivered: datetime | None = None


@dataclass(slots=True)
class Queue:
    """Messages, and for each group which of them it has taken."""

    messages: list[Json] = field(default_factory=list[Json])


class FakeServer:
    """Events, queues and groups. `faults` are used up, one per request."""

    def __init__(self) -> None:
        self.events: dict[str, Stored] = {}
        self.queues: dict[tuple[str, int], Queue] = {}
        self.answers: dict[str, tuple[bytes, Json]] = {}
        self.hidden: dict[tuple[str, str, int, int], float] = {}
        self.done: set[tuple[str, str, int, int]] = set()
        self.attempts: dict[tuple[str, str, int, int], int] = {}
        self.receipts: dict[str, tuple[str, str, int, int]] = {}
        self.numbers = count()
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self.keys: list[str] = []
        self.arrived = asyncio.Event()

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._render])
        route = app.router.add_route
        route("POST", "/v1/topics/{topic}/events", self.publish)
        route("PUT", "/v1/topics/{topic}/events/{key}", self.put)
        route("POST", "/v1/events:batch", self.batch)
        route("GET", "/v1/events", self.list_events)
        route("GET", "/v1/events/{id}", self.get)
        route("PATCH", "/v1/events/{id}", self.patch)
        route("DELETE", "/v1/events/{id}", self.cancel)
        route("POST", "/v1/events/{id}:deliver-now", self.deliver_now)
        route("POST", "/v1/groups/{group}:pop", self.pop)
        route("POST", "/v1/groups/{group}:{verb}", self.settle)
        route("GET", "/v1/topics/{topic}", self.topic)
        route("GET", "/v1/topics/{topic}/queues/{queue}/messages", self.pull)
        return app

    @web.middleware
    async def _render(
        self, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.rel_url.raw_path}")
        fault = self.faults.pop(0) if self.faults else None
        if fault is Fault.LOST_REQUEST:
            return _cut(request)
        if fault is Fault.BAD_GATEWAY:
            return web.Response(status=502, text="<html>", content_type="text/html")
        if fault is Fault.NONSENSE:
            return web.Response(text="welcome", content_type="text/html")
        try:
            if fault is Fault.OVERLOADED:
                raise Refused(503, "overloaded")
            if fault is Fault.QUOTA:
                raise Refused(429, "quota_exceeded")
            answer = await handler(request)
        except Refused as refused:
            return web.json_response(
                refused.body,
                status=refused.status,
                content_type="application/problem+json",
                headers={"Retry-After": "0"} if refused.body["retryable"] else {},
            )
        return _cut(request) if fault is Fault.LOST_ANSWER else answer

    # Events

    async def publish(self, request: web.Request) -> web.Response:
        raw = await request.read()
        answer, replayed = self._once(request, raw, lambda: self._publish(request, raw))
        headers = {"Location": f"/v1/events/{answer['id']}"}
        if replayed:
            headers["Idempotency-Replayed"] = "true"
        return web.json_response(answer, status=201, headers=headers)

    def _publish(self, request: web.Request, raw: bytes) -> Json:
        topic = request.match_info["topic"]
        return _published(self._store(topic, msgspec.json.decode(raw)))

    def _once(
        self, request: web.Request, raw: bytes, make: Callable[[], Json]
    ) -> tuple[Json, bool]:
        key = request.headers.get("Idempotency-Key", "")
        self.keys.append(key)
        known = self.answers.get(key)
        if known is None:
            answer = make()
            self.answers[key] = (raw, answer)
            return answer, False
        if known[0] != raw:
            raise Refused(422, "idempotency_key_reused")
        return known[1], True

    async def put(self, request: web.Request) -> web.Response:
        topic, key = request.match_info["topic"], request.match_info["key"]
        body: Json = msgspec.json.decode(await request.read())
        named = [
            e for e in self.events.values() if e.topic == topic and e.body["key"] == key
        ]
        waiting = [e for e in named if e.state == "scheduled"]
        if request.headers.get("If-None-Match") == "*" and waiting:
            raise Refused(412, "stale_version")
        expected = request.headers.get("If-Match")
        if expected and not waiting:
            raise Refused(409, "already_delivered")
        if not waiting:
            stored = self._store(topic, {**body, "key": key})
            return web.json_response(_published(stored), status=201)
        stored = waiting[0]
        _check_version(request, stored)
        stored.body = {**body, "key": key}
        self._set_due(stored, _due(body) or _now())
        return web.json_response(_published(stored))

    async def batch(self, request: web.Request) -> web.Response:
        assert request.content_type == "application/msgpack"
        raw = await request.read()
        answer, replayed = self._once(request, raw, lambda: self._batch(raw))
        headers = {"Idempotency-Replayed": "true"} if replayed else {}
        return web.Response(
            body=msgspec.msgpack.encode(answer),
            content_type="application/msgpack",
            headers=headers,
        )

    def _batch(self, raw: bytes) -> Json:
        results: list[Json] = []
        for index, item in enumerate(msgspec.msgpack.decode(raw)["events"]):
            if "/" in item["topic"]:
                problem = Refused(422, "invalid_topic").body
                results.append({"index": index, "status": 422, "problem": problem})
                continue
            stored = self._store(item.pop("topic"), item)
            results.append({"index": index, "status": 201, **_published(stored)})
        return {"results": results}

    async def get(self, request: web.Request) -> web.Response:
        return web.json_response(_event(self._find(request)))

    async def list_events(self, request: web.Request) -> web.Response:
        query = request.query
        start = int(query.get("page_token", "0"))
        limit = int(query["limit"])
        wanted = [
            e
            for e in self.events.values()
            if e.state == query.get("state", "scheduled")
            and query.get("topic", e.topic) == e.topic
        ]
        wanted.sort(key=lambda e: (e.due, e.id))
        more = start + limit < len(wanted)
        page = {
            "events": [_event(e) for e in wanted[start : start + limit]],
            "next_page_token": str(start + limit) if more else None,
        }
        return web.json_response(page)

    async def patch(self, request: web.Request) -> web.Response:
        stored = self._pending(request)
        due = _due(msgspec.json.decode(await request.read()))
        assert due is not None
        self._set_due(stored, due)
        return web.json_response(_event(stored))

    async def deliver_now(self, request: web.Request) -> web.Response:
        stored = self._pending(request)
        if stored.timer is not None:
            stored.timer.cancel()
        self._deliver(stored)
        return web.json_response(_event(stored))

    async def cancel(self, request: web.Request) -> web.Response:
        stored = self.events.get(request.match_info["id"])
        if stored is None:
            raise Refused(404, "unknown_event", outcome="not_found")
        if stored.state in ("delivered", "stored"):
            raise Refused(409, "already_delivered", outcome="too_late")
        _check_version(request, stored)
        if stored.timer is not None:
            stored.timer.cancel()
        stored.state = "cancelled"
        return web.json_response({"outcome": "cancelled"})

    # Messages

    async def topic(self, request: web.Request) -> web.Response:
        name = request.match_info["topic"]
        ends = [
            len(self.queues.setdefault((name, number), Queue()).messages)
            for number in range(QUEUE_COUNT)
        ]
        if not any(ends):
            raise Refused(404, "unknown_topic")
        body = {
            "name": name,
            "queues": QUEUE_COUNT,
            "max_delay_ms": 10**12,
            "max_body_bytes": 4 * 2**20,
            "flush": "sync",
            "queue_offsets": [
                {"queue": number, "min_offset": 0, "max_offset": end}
                for number, end in enumerate(ends)
            ],
        }
        return web.json_response(body)

    async def pull(self, request: web.Request) -> web.Response:
        query = request.query
        offset = int(query["offset"])
        name = (request.match_info["topic"], int(request.match_info["queue"]))
        queue = self.queues.setdefault(name, Queue())
        if not 0 <= offset <= len(queue.messages):
            raise Refused(422, "offset_out_of_range")
        await self._wait(
            int(query["wait_ms"]), lambda: offset < len(queue.messages) or None
        )
        messages = queue.messages[offset : offset + int(query["max"])]
        page = {
            "messages": messages,
            "next_offset": offset + len(messages),
            "min_offset": 0,
            "max_offset": len(queue.messages),
        }
        return web.json_response(page)

    async def pop(self, request: web.Request) -> web.Response:
        body: Json = msgspec.json.decode(await request.read())
        group = request.match_info["group"]
        messages = await self._wait(body["wait_ms"], lambda: self._take(group, body))
        return web.json_response({"messages": messages or []})

    def _take(self, group: str, body: Json) -> list[Json] | None:
        now_s = asyncio.get_running_loop().time()
        taken: list[Json] = []
        for number in range(QUEUE_COUNT):
            queue = self.queues.setdefault((body["topic"], number), Queue())
            for message in queue.messages:
                place = (group, body["topic"], number, message["offset"])
                if len(taken) == body["max"] or place in self.done:
                    continue
                if self.hidden.get(place, 0.0) > now_s:
                    continue
                self.hidden[place] = now_s + body["invisible_ms"] / 1000
                attempt = self.attempts[place] = self.attempts.get(place, 0) + 1
                receipt = self._receipt(place)
                taken.append({**message, "receipt": receipt, "attempt": attempt})
        return taken or None

    def _receipt(self, place: tuple[str, str, int, int]) -> str:
        """A new receipt; the older ones of the same message become worthless."""
        self.receipts = {r: p for r, p in self.receipts.items() if p != place}
        receipt = f"r{next(self.numbers)}"
        self.receipts[receipt] = place
        return receipt

    async def settle(self, request: web.Request) -> web.Response:
        body: Json = msgspec.json.decode(await request.read())
        verb, group = request.match_info["verb"], request.match_info["group"]
        results = [
            {"index": index, **self._settle(verb, group, receipt, body)}
            for index, receipt in enumerate(body["receipts"])
        ]
        self.arrived.set()
        return web.json_response({"results": results})

    def _settle(self, verb: str, group: str, receipt: str, body: Json) -> Json:
        now_s = asyncio.get_running_loop().time()
        place = self.receipts.get(receipt)
        if place is None or place in self.done or self.hidden[place] <= now_s:
            return {"status": 409, "problem": Refused(409, "receipt_expired").body}
        if place[0] != group:
            problem = Refused(422, "receipt_of_another_group").body
            return {"status": 422, "problem": problem}
        if verb == "ack":
            self.done.add(place)
        elif verb == "nack":
            self.hidden[place] = now_s + (body.get("delay_ms") or 0) / 1000
        else:
            self.hidden[place] = now_s + body["invisible_ms"] / 1000
            return {"status": 200, "receipt": self._receipt(place)}
        return {"status": 200}

    async def _wait(self, wait_ms: int, look: Callable[[], Any]) -> Any:
        loop = asyncio.get_running_loop()
        end_s = loop.time() + wait_ms / 1000
        while True:
            found = look()
            if found is not None or loop.time() >= end_s:
                return found
            self.arrived.clear()
            try:
                # Messages that become visible again ring no bell.
                async with asyncio.timeout(min(0.02, end_s - loop.time())):
                    await self.arrived.wait()
            except TimeoutError:
                pass

    # Inside

    def _store(self, topic: str, body: Json, name: str = "") -> Stored:
        name = name or str(UUID(int=len(self.events)))
        stored = Stored(name, topic, body, "stored", None)
        body.setdefault("key", None)
        self.events[stored.id] = stored
        due = _due(body)
        if due is None:
            self._deliver(stored)
            stored.state = "stored"
        else:
            stored.state = "scheduled"
            self._set_due(stored, due)
        return stored

    def _set_due(self, stored: Stored, due: datetime) -> None:
        if stored.timer is not None:
            stored.timer.cancel()
            stored.version += 1
        stored.due = due
        delay_s = max(0.0, (due - _now()).total_seconds())
        loop = asyncio.get_running_loop()
        stored.timer = loop.call_later(delay_s + 0.002, self._deliver, stored)

    def _deliver(self, stored: Stored) -> None:
        number = int(UUID(stored.id)) % QUEUE_COUNT
        queue = self.queues.setdefault((stored.topic, number), Queue())
        stored.state, stored.delivered = "delivered", _now()
        body = {k: v for k, v in stored.body.items() if k in _CONTENT}
        if isinstance(body.get("data"), bytes):
            body["data_base64"] = msgspec.to_builtins(body.pop("data"))
        queue.messages.append(
            {
                **body,
                "id": stored.id,
                "topic": stored.topic,
                "queue": number,
                "offset": len(queue.messages),
                "born_at": _text(_now()),
                "stored_at": _text(_now()),
                "deliver_at": stored.due and _text(stored.due),
                "attempt": 1,
            }
        )
        self.arrived.set()

    def _find(self, request: web.Request) -> Stored:
        stored = self.events.get(request.match_info["id"])
        if stored is None:
            raise Refused(404, "unknown_event")
        return stored

    def _pending(self, request: web.Request) -> Stored:
        stored = self._find(request)
        if stored.state in ("delivered", "stored"):
            raise Refused(409, "already_delivered")
        if stored.state == "cancelled":
            raise Refused(409, "already_cancelled")
        _check_version(request, stored)
        return stored


_CONTENT = {"data", "data_base64", "key", "tag", "properties"}


def _check_version(request: web.Request, stored: Stored) -> None:
    expected = request.headers.get("If-Match")
    if expected is not None and expected != f'"{stored.version}"':
        raise Refused(412, "stale_version")


def _cut(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def _now() -> datetime:
    return datetime.now(UTC)


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _due(body: Json) -> datetime | None:
    if body.get("deliver_at") is not None:
        due: datetime = msgspec.convert(body["deliver_at"], datetime, strict=False)
        return due
    if body.get("delay_ms") is not None:
        return _now() + timedelta(milliseconds=body["delay_ms"])
    return None


def _published(stored: Stored) -> Json:
    return {
        "id": stored.id,
        "topic": stored.topic,
        "state": stored.state,
        "deliver_at": stored.due and _text(stored.due),
        "due_in_ms": stored.due and int((stored.due - _now()).total_seconds() * 1000),
        "server_time": _text(_now()),
        "version": stored.version,
    }


def _event(stored: Stored) -> Json:
    body = {k: v for k, v in stored.body.items() if k in _CONTENT}
    if isinstance(body.get("data"), bytes):
        body["data_base64"] = msgspec.to_builtins(body.pop("data"))
    return {
        **body,
        "id": stored.id,
        "topic": stored.topic,
        "state": stored.state,
        "deliver_at": stored.due and _text(stored.due),
        "created_at": _text(_now()),
        "delivered_at": stored.delivered and _text(stored.delivered),
        "cancelled_at": None,
        "lateness_ms": None,
        "version": stored.version,
        "timeline": [{"at": _text(_now()), "what": "scheduled"}],
    }
