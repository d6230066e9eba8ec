"""Topics over HTTP, as the command line needs them.

Times stay the text that the server wrote, so that --json shows what it said.
"""

from typing import Any

import msgspec

from halfpast.request_body import json_body
from halfpast.server_calls import escaped
from halfpast.transport import Repeat
from halfpast_api.page_calls import Json, PageCalls


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


class TopicCalls(PageCalls):
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

    async def create(self, topic: str, **settings: Any) -> TopicView:
        """A new one. Raises Conflict if there is one of this name."""
        answer = await self._send(
            "POST",
            "/v1/topics",
            repeat=Repeat.MAY_CONFLICT,
            body=json_body(name=topic, **settings),
        )
        return answer.read(TopicView)

    async def list(self, count: int) -> list[Json]:
        """The first ones, by name, with how many events wait in each."""
        return await self.some("/v1/topics", "topics", count)
