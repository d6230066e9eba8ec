"""Dead letters of the Delay Server: events that their topics did not take."""

from typing import Final

import msgspec

from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.event_view import EventView, view_event
from halfpast_api.page_token import parse_token, render_token
from halfpast_api.topic_directory import TopicDirectory
from halfpast_chronos.delay_server import DelayServer
from halfpast_chronos.release_calls import ListDead

_LIMIT_MAX: Final = 1000
_SOURCES: Final = ("delay",)


class DeadLetterPageView(msgspec.Struct):
    """A page of dead letters, without their data, those of one topic together and
    the longest dead first."""

    dead_letters: list[EventView]
    next_page_token: str | None


class DeadLetterHandlers:
    """The handler for dead letters. Those of consumer groups are messages in topics
    of their own, `%DLQ%group`."""

    def __init__(self, delay: DelayServer, directory: TopicDirectory) -> None:
        self._delay = delay
        self._directory = directory

    async def list(self, call: Call) -> Answer:
        """GET /v1/dead-letters"""
        query = call.query("source", "topic", "limit", "page_token")
        query.choice("source", "delay", _SOURCES)
        topic_id = 0
        if (name := query.text("topic")) is not None:
            topic_id = await self._directory.id_of(name)
        limit = query.integer("limit", 100, 1, _LIMIT_MAX)
        after = parse_token(query.text("page_token"))
        page = await self._delay.list_dead(ListDead(topic_id, limit, after))
        names = await self._directory.names_of({it.topic_id for it in page.events})
        views = [
            view_event(event, names.get(event.topic_id, ""), event.record, None)
            for event in page.events
        ]
        answer = DeadLetterPageView(views, render_token(page.next_token))
        return call.answer(200, answer)
