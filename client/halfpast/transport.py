"""One call over HTTP: attempts, pauses, and what the failures mean together.

An attempt ends in one of four ways:

    answered    the server said yes, or a no that will not change: pass it on
    not sent    no connection: it certainly had no effect; try again
    passing     429 or a problem marked retryable: try again after a pause
    unknown     time-out, connection lost, 5xx: it may have had an effect; try
                again where a repeat is harmless

The time budget of the policy bounds all attempts and pauses together.
"""

import asyncio
import os
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, TypeVar

import aiohttp
import msgspec
from yarl import URL

from halfpast.answer_body import ProblemBody
from halfpast.credentials import Credentials
from halfpast.errors import (
    ApiProblem,
    ClientClosed,
    OutcomeUnknown,
    ServerUnreachable,
    UnexpectedAnswer,
    api_problem,
)
from halfpast.request_body import JSON, MSGPACK
from halfpast.retry import RetryPolicy, worth_repeating

if TYPE_CHECKING:  # brings OpenTelemetry, which need not be there
    from halfpast.traces import Traces

T = TypeVar("T")


class Repeat(Enum):
    """What it does to send the same call twice."""

    READS = auto()  # changes nothing
    SAME_ANSWER = auto()  # the second is recognised: idempotency key, cancel, ack
    MAY_CONFLICT = auto()  # the second may be refused because the first took effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request to be made, possibly several times. `path` is escaped already."""

    method: str
    path: str
    repeat: Repeat
    body: bytes | None = None
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    wait_s: float = 0.0

    @property
    def idempotency_key(self) -> str:
        return self.headers.get("Idempotency-Key", "")

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A final answer of the server with a status below 300."""

    call: Call
    status: int
    headers: Mapping[str, str]
    body: bytes

    def read(self, kind: type[T]) -> T:
        """The body as `kind`; UnexpectedAnswer if it is something else.

        The server answers MessagePack with MessagePack.
        """
        is_packed = self.headers.get("Content-Type", "").startswith(MSGPACK)
        decode = msgspec.msgpack.decode if is_packed else msgspec.json.decode
        try:
            return decode(self.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UnexpectedAnswer(str(self.call), self.status, str(error)) from error


class Transport:
    """Keeps the connections to one server. Belongs to one event loop.

    At most `calls_max` calls are under way; further ones wait for their turn.
    Long polls do not count, so that they cannot keep a publish waiting.
    """

    def __init__(
        self,
        base_url: str,
        policy: RetryPolicy,
        *,
        calls_max: int = 128,
        credentials: Credentials | None = None,
        traces: "Traces | None" = None,
    ) -> None:
        """Without credentials those of the environment."""
        self.traces = traces
        self._sent = (credentials or Credentials.found(None, None)).headers()
        self.base_url = _checked(base_url).rstrip("/")
        self._policy = policy
        self._turns = asyncio.Semaphore(calls_max)
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def send(self, call: Call) -> Answer:
        """Make the call until it is answered or its time is over.

        Raises ApiProblem for a refusal, OutcomeUnknown or ServerUnreachable when
        the time is over. The time begins when it is the call's turn.
        """
        if call.wait_s:
            return await self._send(call)
        async with self._turns:
            return await self._send(call)

    async def _send(self, call: Call) -> Answer:
        trial = _Trial(call, self.base_url, self._policy)
        while True:
            try:
                answer = await self._attempt(call, trial.attempt_s())
            except ApiProblem as problem:
                pause_s = trial.refused(problem)
            except aiohttp.ClientConnectorError as error:
                pause_s = trial.not_sent(error)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                pause_s = trial.lost(error)
            else:
                return answer
            await asyncio.sleep(pause_s)

    async def _attempt(self, call: Call, limit_s: float) -> Answer:
        if self._session is None:
            raise ClientClosed
        headers = {"Accept": call.content_type, **self._sent, **call.headers}
        if self.traces is not None:
            headers |= self.traces.headers()
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        # Encoded by us: yarl would turn %2F in a key back into a slash.
        url = URL(self.base_url + call.path, encoded=True)
        async with self._session.request(
            call.method,
            url.with_query(call.query) if call.query else url,
            data=call.body,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=limit_s),
            allow_redirects=False,
        ) as response:
            body = await response.read()
            if response.status < 300:
                return Answer(
                    call=call,
                    status=response.status,
                    headers=response.headers,
                    body=body,
                )
            raise _refusal(response, body)


class _Trial:
    """The attempts at one call so far: whether to go on, and what to report.

    Each method notes how an attempt ended; it returns the seconds to pause
    before the next one, or raises what the caller shall see.
    """

    def __init__(self, call: Call, base_url: str, policy: RetryPolicy) -> None:
        self._call = call
        self._base_url = base_url
        self._policy = policy
        self._begin_s = time.monotonic()
        self._deadline_s = self._begin_s + policy.total_s + call.wait_s
        self._attempts = 0
        self._may_have_happened = False

    def attempt_s(self) -> float:
        """How long the next attempt may take."""
        self._attempts += 1
        limit_s = self._policy.attempt_s + self._call.wait_s
        return max(0.001, min(limit_s, self._deadline_s - time.monotonic()))

    def refused(self, problem: ApiProblem) -> float:
        unknown = problem.status >= 500 and problem.status != 507
        self._may_have_happened |= unknown
        if worth_repeating(problem.status, problem.retryable):
            pause_s = self._pause_s(problem.retry_after_s)
            if pause_s is not None:
                return pause_s
        if self._is_unknown(problem):
            raise self._unknown(str(problem)) from problem
        raise problem

    def not_sent(self, error: aiohttp.ClientConnectorError) -> float:
        pause_s = self._pause_s()
        limit_s = self._policy.unreachable_s
        waited_s = time.monotonic() - self._begin_s
        if pause_s is None or (limit_s is not None and waited_s >= limit_s):
            number = error.os_error.errno
            why = os.strerror(number) if number else str(error)
            raise self._given_up(why) from error
        return pause_s

    def lost(self, error: Exception) -> float:
        self._may_have_happened = True
        pause_s = self._pause_s()
        if pause_s is not None:
            return pause_s
        raise self._given_up(str(error) or type(error).__name__) from error

    def _pause_s(self, retry_after_s: float | None = None) -> float | None:
        """None if the next attempt would begin after the end."""
        chance = random.random()  # nosec B311 # jitter, no secret
        pause_s = self._policy.pause_s(self._attempts, chance, retry_after_s)
        in_time = time.monotonic() + pause_s < self._deadline_s
        return pause_s if in_time else None

    def _is_unknown(self, problem: ApiProblem) -> bool:
        """Whether this refusal, the last word, leaves open what happened before."""
        if not self._may_have_happened or self._call.repeat is Repeat.READS:
            return False
        if self._call.repeat is Repeat.MAY_CONFLICT and problem.status in (409, 412):
            return True
        # Recognised as a repeat or refused as new: a plain no is a plain no,
        # but "not now" says nothing about the attempts before.
        return problem.status >= 500 or problem.status == 429

    def _given_up(self, why: str) -> OutcomeUnknown | ServerUnreachable:
        if self._may_have_happened and self._call.repeat is not Repeat.READS:
            return self._unknown(why)
        return ServerUnreachable(self._base_url, why)

    def _unknown(self, why: str) -> OutcomeUnknown:
        return OutcomeUnknown(
            str(self._call), self._attempts, why, self._call.idempotency_key
        )


def _checked(base_url: str) -> str:
    """Raises ValueError for what cannot be the address of a server."""
    try:
        url = URL(base_url)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host or url.query_string:
        raise ValueError(
            f"{base_url!r} is not the address of a server; write for example "
            "http://127.0.0.1:7080"
        )
    return base_url


def _refusal(response: aiohttp.ClientResponse, body: bytes) -> ApiProblem:
    """The problem of an error answer; a proxy may have made it, without one."""
    parsed = ProblemBody(title=response.reason or "")
    if "json" in response.content_type:
        try:
            parsed = msgspec.json.decode(body, type=ProblemBody)
        except (msgspec.DecodeError, UnicodeDecodeError):
            parsed.detail = body[:200].decode(errors="replace")
    retry_after_s = _seconds(response.headers.get("Retry-After"))
    return api_problem(parsed.problem(response.status, retry_after_s))


def _seconds(header: str | None) -> float | None:
    """Retry-After in seconds. Its other form, a date, depends on two clocks: no."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < 86_400 else None
