"""An API that says what it is told to, for pages of the console, and counts what it is
asked for."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlencode

import msgspec
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from halfpast_api.access.access import OPEN_ACCESS, Access
from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.config import BodyLimits
from halfpast_api.console.assets import Assets
from halfpast_api.console.form import Form
from halfpast_api.console.frame import Frame
from halfpast_api.console.live_stream import LiveStreams
from halfpast_api.console.page_names import console_pages
from halfpast_api.console.page_routes import page_routes
from halfpast_api.console.shelf import Shelf
from halfpast_api.long_poll import LongPolls
from halfpast_api.problems import Refusal
from halfpast_api.router import Router

FORM = "application/x-www-form-urlencoded"


class Request:
    """What `Call` asks of a request."""

    def __init__(self, target: str, headers: Mapping[str, str]) -> None:
        self.raw_path = target
        self.rel_url = URL(target, encoded=True)
        self.headers = CIMultiDictProxy(CIMultiDict(headers))
        self.protocol = None


class StubApi:
    """`answers`: what GETs answer, by path without query; else there is nothing."""

    def __init__(self, answers: Mapping[str, object] | None = None) -> None:
        self.answers = dict(answers or {})
        self.calls: list[tuple[str, str, Any, dict[str, str]]] = []
        frame = Frame(console_pages(Assets()), LiveStreams(LongPolls()), lambda: {})
        self._router = Router(page_routes(Shelf(frame, BodyLimits())))

    async def perform(
        self,
        outer: Call,
        method: str,
        target: str,
        body: bytes,
        sent: Mapping[str, str],
    ) -> Answer:
        """Answers as `Dispatcher.perform` does."""
        decoded = msgspec.json.decode(body) if body else None
        self.calls.append((method, target, decoded, dict(sent)))
        found = self.answers.get(target.partition("?")[0])
        if isinstance(found, Exception):
            raise found
        if found is None:
            raise Refusal("unknown_route", f"nothing at {target}")
        return Answer(200, msgspec.json.encode(found))

    def visit(
        self,
        target: str,
        *,
        form: Mapping[str, str] | str | None = None,
        access: Access = OPEN_ACCESS,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """What a page answers, or a form if one is given."""
        work = self.visited(target, form=form, access=access, headers=headers)
        return asyncio.run(work)

    async def visited(
        self,
        target: str,
        *,
        form: Mapping[str, str] | str | None = None,
        access: Access = OPEN_ACCESS,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """The same, within a loop."""
        method = "GET" if form is None else "POST"
        route, parameters = self._router.find(method, target)
        sent, body = dict(headers or {}), b""
        if form is not None:
            sent.setdefault("Content-Type", FORM)
            body = (form if isinstance(form, str) else encode(form)).encode()
        request = cast(Any, Request(target, sent))
        call = Call(request, parameters, body, access, route.verb, "", self.perform)
        return await route.handler(call)


def encode(form: Mapping[str, str]) -> str:
    return urlencode(form)


def form_of(**fields: str) -> Form:
    return Form(list(fields.items()))


def location(answer: Answer) -> str:
    return answer.extra("Location")
