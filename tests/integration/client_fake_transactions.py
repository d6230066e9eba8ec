"""The fake server, with transactions: states, check-backs and their answers.

It checks nobody back by itself: a test says when, with `ask`.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import msgspec
from aiohttp import web
from tests.integration.client_fake_server import FakeServer, Json, Refused


@dataclass(slots=True)
class Begun:
    """A transaction and its messages."""

    id: str
    body: Json
    messages: list[Json]
    state: str = "prepared"
    source: str = ""
    checks: int = 0
    answers: list[str] = field(default_factory=list[str])


class FakeTransactionServer(FakeServer):
    """`refusals` are used up, one per item of a batch: the code of its problem."""

    def __init__(self) -> None:
        super().__init__()
        self.transactions: dict[str, Begun] = {}
        self.questions: dict[str, list[Json]] = {}
        self.asked = asyncio.Event()
        self.answered = asyncio.Event()
        self.refusals: list[Refused] = []

    def app(self) -> web.Application:
        app = super().app()
        route = app.router.add_route
        route("POST", "/v1/transactions", self.begin)
        route("POST", "/v1/transactions:batch", self.begin_batch)
        route("POST", "/v1/transactions:end", self.end_batch)
        route("POST", "/v1/transactions/{id}:add", self.add)
        route("POST", "/v1/transactions/{id}:commit", self.commit)
        route("POST", "/v1/transactions/{id}:rollback", self.rollback)
        route("GET", "/v1/producer-groups/{group}/checks", self.checks)
        route("POST", "/v1/producer-groups/{group}/checks:answer", self.answer)
        return app

    @property
    def states(self) -> list[str]:
        return [begun.state for begun in self.transactions.values()]

    def ask(self, transaction_id: str) -> None:
        """Check a transaction back."""
        begun = self.transactions[transaction_id]
        begun.checks += 1
        question = {
            "id": begun.id,
            "check": begun.checks,
            "producer_group": begun.body["producer_group"],
            "begun_at": "2026-11-20T10:00:00.000Z",
            "message_count": len(begun.messages),
            "messages": [
                {k: m[k] for k in ("id", "topic", "key", "tag") if k in m}
                for m in begun.messages
            ],
        }
        if "reference" in begun.body:
            question["reference"] = begun.body["reference"]
        self.questions.setdefault(begun.body["producer_group"], []).append(question)
        self.asked.set()

    async def begin(self, request: web.Request) -> web.Response:
        raw = await request.read()

        def make() -> Json:
            return self._begin(_decoded(request, raw))

        answer, _ = self._once(request, raw, make)
        return _encoded(request, answer, 201)

    async def begin_batch(self, request: web.Request) -> web.Response:
        raw = await request.read()

        def make() -> Json:
            results: list[Json] = []
            for index, body in enumerate(_decoded(request, raw)["transactions"]):
                item: Json = {"index": index}
                try:
                    begun = self._begin(body)
                    item |= {"status": 201, "id": begun["id"], "state": "prepared"}
                except Refused as refused:
                    item |= {"status": refused.status, "problem": refused.body}
                results.append(item)
            return {"results": results}

        answer, _ = self._once(request, raw, make)
        return _encoded(request, answer, 200)

    async def add(self, request: web.Request) -> web.Response:
        begun = self._transaction(request.match_info["id"])
        body = _decoded(request, await request.read())
        if begun.state != "prepared":
            raise Refused(409, "transaction_conflict", state=begun.state)
        first = body["first_index"]
        if first > len(begun.messages):
            raise Refused(409, "messages_out_of_order")
        fresh = body["messages"][len(begun.messages) - first :]
        for message in fresh:
            message["id"] = _message_id(begun.id, len(begun.messages))
            begun.messages.append(message)
        shown = begun.messages[first : first + len(body["messages"])]
        return _encoded(request, {"id": begun.id, "messages": _ids(shown)}, 200)

    async def commit(self, request: web.Request) -> web.Response:
        answer = self._end(request.match_info["id"], "committed", "producer")
        return web.json_response(answer)

    async def rollback(self, request: web.Request) -> web.Response:
        answer = self._end(request.match_info["id"], "rolled_back", "producer")
        return web.json_response(answer)

    async def end_batch(self, request: web.Request) -> web.Response:
        ends = _decoded(request, await request.read())["ends"]
        results = [
            {"index": index, **self._item(end["id"], end["state"], "producer")}
            for index, end in enumerate(ends)
        ]
        return _encoded(request, {"results": results}, 200)

    async def checks(self, request: web.Request) -> web.Response:
        group, query = request.match_info["group"], request.query
        if not self.questions.get(group) and int(query["wait_ms"]):
            self.asked.clear()
            try:
                async with asyncio.timeout(int(query["wait_ms"]) / 1000):
                    await self.asked.wait()
            except TimeoutError:
                pass
        waiting = self.questions.get(group, [])
        taken = [waiting.pop(0) for _ in range(min(int(query["max"]), len(waiting)))]
        return _encoded(request, {"checks": taken}, 200)

    async def answer(self, request: web.Request) -> web.Response:
        answers = _decoded(request, await request.read())["answers"]
        results: list[Json] = []
        for index, answer in enumerate(answers):
            begun = self._transaction(answer["id"])
            begun.answers.append(answer["state"])
            item: Json = {"status": 200}
            if answer["state"] != "unknown":
                item = self._item(answer["id"], answer["state"], "check")
            results.append({"index": index, **item})
        self.answered.set()
        return _encoded(request, {"results": results}, 200)

    def _begin(self, body: Json) -> Json:
        if self.refusals:
            raise self.refusals.pop(0)
        if not body["messages"]:
            raise Refused(422, "no_messages")
        if any("/" in message["topic"] for message in body["messages"]):
            raise Refused(422, "invalid_topic")
        if body.get("check_required"):
            raise Refused(422, "producer_group_required")
        number = len(self.transactions) + 1
        begun = Begun(str(UUID(int=(0x70 << 72) + (number << 16))), body, [])
        for message in body["messages"]:
            message["id"] = _message_id(begun.id, len(begun.messages))
            begun.messages.append(message)
        self.transactions[begun.id] = begun
        return {"id": begun.id, "state": "prepared", "messages": _ids(begun.messages)}

    def _item(self, transaction_id: str, state: str, source: str) -> Json:
        try:
            if self.refusals:
                raise self.refusals.pop(0)
            return {"status": 200, **self._end(transaction_id, state, source)}
        except Refused as refused:
            return {"status": refused.status, "problem": refused.body}

    def _end(self, transaction_id: str, state: str, source: str) -> Json:
        begun = self._transaction(transaction_id)
        if begun.state == "parked":
            raise Refused(409, "transaction_parked")
        if begun.state not in ("prepared", state):
            raise Refused(409, "transaction_conflict", state=begun.state)
        if begun.state == "prepared":
            begun.state, begun.source = state, source
            for message in begun.messages if state == "committed" else []:
                body = {k: v for k, v in message.items() if k not in ("id", "topic")}
                self._store(message["topic"], body, message["id"])
        return {"id": begun.id, "state": begun.state, "source": begun.source}

    def _transaction(self, transaction_id: str) -> Begun:
        begun = self.transactions.get(transaction_id)
        if begun is None:
            raise Refused(404, "unknown_transaction")
        return begun


def _message_id(transaction_id: str, index: int) -> str:
    return str(UUID(int=UUID(transaction_id).int + index + 1))


def _ids(messages: list[Json]) -> list[Json]:
    return [{"id": m["id"], "topic": m["topic"]} for m in messages]


def _decoded(request: web.Request, raw: bytes) -> Any:
    assert request.content_type == "application/msgpack"
    return msgspec.msgpack.decode(raw)


def _encoded(request: web.Request, answer: Json, status: int) -> web.Response:
    if "msgpack" not in request.headers["Accept"]:
        return web.json_response(answer, status=status)
    body = msgspec.msgpack.encode(answer)
    return web.Response(body=body, status=status, content_type="application/msgpack")
