"""The way of every request: route, caller, body, handler, answer; and of every error.

This is the one place that lets requests in, puts on record what they have done, and
turns errors into problems. What was not raised on purpose becomes a 500 and is logged,
once, with the id of the request.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Final

import structlog
from aiohttp import web
from multidict import istr

from halfpast_api import headers
from halfpast_api.access.access import Access
from halfpast_api.access.acts import Acts
from halfpast_api.access.door import Door
from halfpast_api.access.redaction import redact_text
from halfpast_api.access.session_handlers import login_first
from halfpast_api.access.verbs import SAFE_METHODS, Verb
from halfpast_api.answer import Answer, problem_answer
from halfpast_api.bodies import BodyReceiver, ClientGone
from halfpast_api.call import Call, InnerCall
from halfpast_api.connection import Connection
from halfpast_api.http_metrics import HttpMetrics
from halfpast_api.limits.limiter import Limiter
from halfpast_api.load.shedder import Shedder
from halfpast_api.load.urgency import Urgency
from halfpast_api.problems import KINDS, FieldProblem, Refusal, as_refusal
from halfpast_api.router import Route, Routers

RefusalPage = Callable[[Refusal, str], Answer]
"""A page for people out of a refusal and the id of the request."""

_ACCEPT: Final = istr("Accept")
_UNAUTHENTICATED: Final = 401


class Dispatcher:
    """Answers the requests of one server."""

    def __init__(
        self,
        routers: Routers,
        door: Door,
        acts: Acts,
        receiver: BodyReceiver,
        metrics: HttpMetrics,
        limiter: Limiter,
        shedder: Shedder,
        refusal_page: RefusalPage | None = None,
    ) -> None:
        self._limiter = limiter
        self._shedder = shedder
        self._refusal_page = refusal_page
        self._routers = routers
        self._router = routers.of("")
        self._door = door
        self._acts = acts
        self._receiver = receiver
        self._metrics = metrics
        self._ids: Iterator[int] = count(1)
        self._id_prefix: Final = f"{os.getpid():x}-{time.time_ns():x}"
        self._log = structlog.get_logger("halfpast.api")

    async def __call__(self, request: web.BaseRequest) -> Answer:
        """Never raises for a request that can be answered."""
        started_s = time.perf_counter()
        connection = request.protocol
        assert isinstance(connection, Connection)
        connection.begin()
        request_id = headers.request_id(request.headers)
        if request_id is None:
            request_id = f"{self._id_prefix}-{next(self._ids):x}"
        metrics = self._metrics.unmatched
        route: Route | None = None
        access: Access | None = None
        try:
            target = request.raw_path
            if target[:1] != "/":  # a proxy may send the whole URL
                target = request.rel_url.raw_path_qs
            route, parameters = self._router.find(request.method, target)
            metrics = self._metrics.route(route.method, route.template)
            urgency = route.urgency
            if urgency <= Urgency.ORDINARY:
                self._shedder.check(urgency)
            access = await self._door.admit(
                request.method, request.headers, route, parameters
            )
            if access.namespace:
                router = self._routers.of(access.namespace)
                route, parameters = router.find(request.method, target)
            quota = self._limiter.admit(access, urgency)
            body = b""
            if route.body_max:
                body = await self._receiver.receive(request, route.body_max)
                if quota is not None:
                    quota.charge(len(body), self._limiter.now_s())
            if access.session is not None and route.verb is not Verb.OPEN:
                self._door.check_csrf(request.method, request.headers, access, body)
            call = Call(
                *(request, parameters, body, access, route.verb, request_id),
                *(self.perform, quota),
            )
            handle = self._work if urgency is Urgency.ENTRY else self._run
            answer = await handle(route, call)
            answer.request_id = request_id
            if quota is not None:
                answer.add(quota.headers(self._limiter.now_s()))
        except ClientGone:
            raise
        except Exception as error:
            answer = self._refuse(error, request, request_id, route, access)
        finally:
            connection.end()
        metrics.observe(answer.status, time.perf_counter() - started_s)
        return answer

    async def perform(
        self,
        outer: Call,
        method: str,
        target: str,
        body: bytes,
        sent: Mapping[str, str],
    ) -> Answer:
        """What another route answers to the caller of `outer`. Raises what its handler
        raises, and Refusal where the caller may not call it."""
        access = outer.access
        self._door.check_still_in(access)
        route, parameters = self._routers.of(access.namespace).find(method, target)
        topic = parameters[route.topic_at] if route.topic_at >= 0 else None
        access.check_reach(route.verb, route.reach, topic)
        call = InnerCall(outer, target, parameters, body, route.verb, sent)
        return await self._run(route, call)

    async def _work(self, route: Route, call: Call) -> Answer:
        """The same for what counts as work under way."""
        window = self._shedder.window
        units = window.enter(len(call.body))
        began_s = time.perf_counter()
        try:
            return await self._run(route, call)
        finally:
            window.leave(units, time.perf_counter() - began_s)

    async def _run(self, route: Route, call: Call) -> Answer:
        """The handler's answer; if it is an act, then on record."""
        if route.method in SAFE_METHODS or not self._acts.counts(route, call.access):
            return await route.handler(call)
        before = await self._before(route, call)
        answer = await route.handler(call)
        await self._acts.record(route, call, answer, before)
        return answer

    async def _before(self, route: Route, call: Call) -> bytes:
        """What GET of the same object answers; nothing if it has none, or is new."""
        shown = self._acts.shown_before(route, call.path)
        if not shown:
            return b""
        try:
            found, parameters = self._routers.of(call.access.namespace).find(
                "GET", shown
            )
            look = InnerCall(call, shown, parameters, b"", found.verb, {})
            return (await found.handler(look)).content
        except Exception as error:  # the act itself tells what is wrong
            if as_refusal(error) is None:
                self._log.warning("trail_without_before", exc_info=error)
            return b""

    def _refuse(
        self,
        error: Exception,
        request: web.BaseRequest,
        request_id: str,
        route: Route | None,
        access: Access | None,
    ) -> Answer:
        refusal = as_refusal(error)
        if refusal is None:
            self._log.error(
                "request_failed",
                request_id=request_id,
                method=request.method,
                path=redact_text(request.raw_path),
                actor=access.actor if access else "",
                exc_info=error,
            )
            refusal = Refusal(
                "internal",
                "the server met an error that it did not expect; whether the request "
                "took effect is unknown. Tell whoever runs it the request_id, which is "
                "in its log",
            )
        self._metrics.refuse(KINDS[refusal.code].status, refusal.code)
        is_page = route is not None and route.is_page
        is_look = is_page and request.method in SAFE_METHODS
        if is_look and KINDS[refusal.code].status == _UNAUTHENTICATED:
            return login_first(request.raw_path)
        if access is not None and access.namespace:
            refusal = _as_known_outside(refusal, f"{access.namespace}%")
        is_read = is_page and "text/html" in request.headers.get(_ACCEPT, "")
        if is_read and self._refusal_page is not None:
            answer = self._refusal_page(refusal, request_id)
            answer.request_id = request_id
            return answer
        return problem_answer(refusal, request_id)


def _as_known_outside(refusal: Refusal, prefix: str) -> Refusal:
    """The same with the names that the caller knows: services tell those of the
    store."""
    errors: Sequence[FieldProblem] = [
        FieldProblem(it.pointer, it.detail.replace(prefix, "")) for it in refusal.errors
    ]
    refusal.detail = refusal.detail.replace(prefix, "")
    refusal.errors = errors
    return refusal
