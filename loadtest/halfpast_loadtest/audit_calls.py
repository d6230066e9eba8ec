"""The requests of an audit's load: with patience, and answers taken apart."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from halfpast_loadtest.errors import LoadtestError
from halfpast_loadtest.patient_client import PatientClient

POLL_MS = 50
PATIENCE_S = 60.0
GOOD = frozenset({200, 201, 202})


class AuditCalls:
    """What all parts of a load ask with. `prefix` goes before all names."""

    def __init__(self, client: PatientClient, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    def name(self, name: str) -> str:
        return f"{self._prefix}{name}".replace("_", "-")

    async def get(self, path: str) -> Any:
        return await self.ask("GET", path, b"")

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        return await self.ask("POST", path, body)

    async def ask(
        self, method: str, path: str, body: object, want: frozenset[int] = GOOD
    ) -> Any:
        answer = await self._client.request(method, path, body, want=want)
        return msgspec.json.decode(answer.body)

    async def publish(self, events: list[dict[str, Any]]) -> list[tuple[str, str]]:
        """Ids and topics."""
        if not events:
            return []
        told = await self.post("/v1/events:batch", {"events": events})
        return [
            (result["id"], event["topic"])
            for result, event in zip(told["results"], events, strict=True)
        ]

    async def state(self, event_id: str) -> str:
        """Of an event; empty if nobody knows it (yet)."""
        want = frozenset({200, 404})
        told = await self.ask("GET", f"/v1/events/{event_id}", b"", want)
        return str(told.get("state", ""))

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Ask again and again; the API has nothing to wait on for this."""
        give_up_s = time.monotonic() + PATIENCE_S
        for _ in itertools.count():
            if await holds():
                return
            if time.monotonic() > give_up_s:
                raise LoadtestError("the load does not come to its end")
            await asyncio.sleep(POLL_MS / 1000)
