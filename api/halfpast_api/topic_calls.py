"""Topics and dead letters over HTTP, as the command line needs them.

Times stay the text that the server wrote, so that --json shows what it said.
"""

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from halfpast.request_body import json_body
from halfpast.server_calls import escaped
from halfpast.transport import Repeat
from halfpast_api.open_calls import OpenCalls


class ReleaseView(msgspec.Struct):
    """What of a topic waits in the Delay Server, and what for."""

    state: str
    pending: int = 0
    due_now: int = 0
    oldest_due_at: str | None = None
    retrying: int = 0
    dead_letters: int = 0
    exact: bool = True


class TopicView(msgspec.Struct):
    """A topic's settings, and how its release stands if that is known."""

    name: str
    queues: int
    paused: bool
    accepting: bool
    release_rate_per_s: int
    max_pending: int
    max_delay_ms: int
    max_body_bytes: int
    flush: str = "sync"
    description: str = ""
    release: ReleaseView | None = None


class DeadLetterView(msgspec.Struct, omit_defaults=True):
    """An event that its topic did not take."""

    id: str
    topic: str
    state: str
    deliver_at: str | None = None
    dead_at: str | None = None
    attempts: int = 0
    reason: str = ""
    key: str | None = None
    tag: str | None = None


class _Page(msgspec.Struct):
    dead_letters: list[DeadLetterView]
    next_page_token: str | None


class TopicCalls(OpenCalls):
    """Calls of one server; used inside `async with`. Raises a `HalfpastError`."""

    async def get(self, topic: str) -> TopicView:
        """Its settings and what waits."""
        return (await self._read(f"/v1/topics/{escaped(topic)}")).read(TopicView)

    async def change(self, topic: str, **settings: Any) -> TopicView:
        """Give it some settings; the others stay."""
        answer = await self._send(
            "PATCH",
            f"/v1/topics/{escaped(topic)}",
            repeat=Repeat.SAME_ANSWER,
            body=json_body(**settings),
        )
        return answer.read(TopicView)

    async def dead_letters(
        self, topic: str | None, page_size: int
    ) -> AsyncIterator[list[DeadLetterView]]:
        """Dead letters of the Delay Server, page by page."""
        query = {"source": "delay", "limit": str(page_size)}
        if topic is not None:
            query["topic"] = topic
        while True:
            page = (await self._read("/v1/dead-letters", query)).read(_Page)
            yield page.dead_letters
            if not page.next_page_token:
                return
            query["page_token"] = page.next_page_token

    async def redrive(self, event: str) -> DeadLetterView:
        """Have a dead letter tried again, now."""
        answer = await self._send(
            "POST", f"/v1/events/{escaped(event)}:redrive", repeat=Repeat.MAY_CONFLICT
        )
        return answer.read(DeadLetterView)
