"""The way of every request: route, body, handler, answer; and of every error.

This is the one place that turns errors into problems. What was not raised on
purpose becomes a 500 and is logged, once, with the id of the request.
"""

import os
import time
from collections.abc import Iterator
from itertools import count
from typing import Final

import structlog
from aiohttp import web

from halfpast_api import headers
from halfpast_api.answer import Answer, problem_answer
from halfpast_api.bodies import BodyReceiver, ClientGone
from halfpast_api.call import Call
from halfpast_api.connection import Connection
from halfpast_api.http_metrics import HttpMetrics
from halfpast_api.problems import Refusal, as_refusal
from halfpast_api.router import Router


class Dispatcher:
    """Answers the requests of one server."""

    def __init__(
        self, router: Router, receiver: BodyReceiver, metrics: HttpMetrics
    ) -> None:
        self._router = router
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
        try:
            target = request.raw_path
            if target[:1] != "/":  # a proxy may send the whole URL
                target = request.rel_url.raw_path_qs
            route, parameters = self._router.find(request.method, target)
            metrics = self._metrics.route(route.method, route.template)
            body = b""
            if route.body_max:
                body = await self._receiver.receive(request, route.body_max)
            answer = await route.handler(Call(request, parameters, body))
            answer.request_id = request_id
        except ClientGone:
            raise
        except Exception as error:
            answer = self._refuse(error, request, request_id)
        finally:
            connection.end()
        metrics.observe(answer.status, time.perf_counter() - started_s)
        return answer

    def _refuse(
        self, error: Exception, request: web.BaseRequest, request_id: str
    ) -> Answer:
        refusal = as_refusal(error)
        if refusal is None:
            self._log.error(
                "request_failed",
                request_id=request_id,
                method=request.method,
                path=request.raw_path,
                exc_info=error,
            )
            refusal = Refusal(
                "internal",
                "the server met an error that it did not expect; whether the request "
                "took effect is unknown. Tell whoever runs it the request_id, which is "
                "in its log",
            )
        return problem_answer(refusal, request_id)
