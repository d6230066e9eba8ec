"""Trying an endpoint: a made-up event is posted now, and the answer is shown."""

import asyncio
from typing import Final

import msgspec
from msgspec import UNSET

from halfpast_api.access.namespaced_names import names_in
from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.names import check_topic_to_read
from halfpast_api.problems import Refusal
from halfpast_api.push.endpoint_body import TestBody
from halfpast_api.push.endpoint_name import stored_name
from halfpast_api.push.endpoint_view import SentView, TestView
from halfpast_api.push.endpoints import EndpointParts, find_endpoint
from halfpast_api.push.push_server import TestEndpoint
from halfpast_api.reading import Reader

_DEPTH_MAX: Final = 128
_SLACK_S: Final = 5.0
_SAMPLE: Final = msgspec.json.encode(
    {"message": "This is a test of your endpoint.", "test": True}
)


class EndpointTestHandlers:
    """The handler for tests of endpoints."""

    def __init__(self, parts: EndpointParts) -> None:
        self._parts = parts
        self._reader = Reader(TestBody, _DEPTH_MAX)

    async def test(self, call: Call) -> Answer:
        """POST /v1/endpoints/{name}:test"""
        body = call.read(self._reader) if call.body else TestBody()
        if body.topic is not None:
            check_topic_to_read(body.topic)
        entry = await find_endpoint(self._parts.metadata, call)
        push, settings = self._parts.push, entry.settings
        if push is None:
            raise Refusal("unavailable", "no push process is running; start one")
        data = _SAMPLE if body.data is UNSET else bytes(body.data)
        names = names_in(self._parts.namespace)
        topic = names.inside(body.topic or "test")
        if body.topic is None:
            topic = next((it for it in settings.topics if "*" not in it), topic)
        request = TestEndpoint(
            name=stored_name(self._parts.namespace, entry.name),
            url=settings.url,
            mode=settings.mode,
            secrets=list(settings.secrets),
            timeout_ms=settings.timeout_ms,
            topic=topic or "test",
            data=data,
        )
        async with asyncio.timeout(2 * settings.timeout_ms / 1000 + _SLACK_S):
            found = await push.test_endpoint(request)
        view = TestView(
            name=entry.name,
            delivered=found.result == "delivered",
            result=found.result,
            status=found.status or None,
            error=found.error,
            response=found.response,
            duration_ms=found.duration_ms,
            event_id=found.event_id,
            request=SentView(settings.url, found.headers, found.body.decode()),
        )
        return call.answer(200, view)
