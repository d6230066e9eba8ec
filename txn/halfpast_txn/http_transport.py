"""Check-backs by HTTP: the real `CheckTransport`.

A call waits for a slot of its endpoint, and for one of all; it passes the endpoint's
circuit breaker; then it is made. All of that has the endpoint's time-out together.
"""

import asyncio
import ssl

import structlog

from halfpast_core_store.ports import Clock
from halfpast_core_store.real_clock import RealClock

from .address_rules import AllowList
from .check_answer import (
    BAD_SECRET,
    BUSY,
    CIRCUIT_OPEN,
    INTERNAL_ERROR,
    RESULTS,
    TIMEOUT,
    Health,
    Outcome,
)
from .check_call import call_body, call_headers
from .circuit_breaker import CircuitConfig
from .http_call import HttpCaller
from .http_endpoints import EndpointState, EndpointStates
from .http_resolver import Lookup, SystemLookup
from .http_slots import Slots
from .namespace import as_known_in
from .producer_group import CheckEndpoint
from .transactions import Check
from .transport import Verdict

IN_FLIGHT_MAX = 256
SHOWN_COUNT_MAX = 100

log = structlog.get_logger("halfpast.txn")


class HttpCheckTransport:
    """See `transport.CheckTransport`. Belongs to one event loop.

    Without a `lookup` the machine's resolver is asked; without an `ssl_context`
    certificates are verified against the machine's authorities. Calls are stamped by
    the clock `stamps`, if it is another: receivers hold it against their own.
    """

    def __init__(
        self,
        allow: AllowList,
        *,
        circuits: CircuitConfig | None = None,
        in_flight_max: int = IN_FLIGHT_MAX,
        clock: Clock | None = None,
        stamps: Clock | None = None,
        lookup: Lookup | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._caller = HttpCaller(allow, lookup or SystemLookup(), ssl_context)
        self._clock = clock or RealClock()
        self._stamps = stamps or self._clock
        self._endpoints = EndpointStates(circuits or CircuitConfig())
        self._in_flight_max = in_flight_max
        self._slots = Slots()
        self._results = dict.fromkeys(RESULTS, 0)

    async def ask(self, endpoint: CheckEndpoint, check: Check) -> Verdict:
        outcome = await self._outcome(endpoint, check)
        self._results[outcome.result] += 1
        return outcome.verdict

    def counters(self) -> dict[str, float]:
        return {
            f'check_calls_total{{result="{result}"}}': count
            for result, count in self._results.items()
        }

    def gauges(self) -> dict[str, float]:
        self._endpoints.forget(self._now_ms())
        gauges: dict[str, float] = {"check_calls_in_flight": self._slots.used}
        for state in self._endpoints.shown(SHOWN_COUNT_MAX):
            name = f'check_endpoint_circuit{{endpoint="{state.label}"}}'
            gauges[name] = state.breaker.circuit
        return gauges

    async def close(self) -> None:
        """Nothing to do: a call owns its connection, and who asked owns the call."""

    async def _outcome(self, endpoint: CheckEndpoint, check: Check) -> Outcome:
        deadline = asyncio.get_running_loop().time() + endpoint.timeout_ms / 1000
        now_ms = self._now_ms()
        state = self._endpoints.use(endpoint.url, now_ms)
        if state.breaker.holds_back(now_ms):
            return CIRCUIT_OPEN
        try:
            async with asyncio.timeout_at(deadline) as waiting:
                async with (
                    state.slots.taken(endpoint.concurrency_max),
                    self._slots.taken(self._in_flight_max),
                ):
                    waiting.reschedule(None)
                    return await self._pass_breaker(state, endpoint, check, deadline)
        except TimeoutError:
            return BUSY

    async def _pass_breaker(
        self,
        state: EndpointState,
        endpoint: CheckEndpoint,
        check: Check,
        deadline: float,
    ) -> Outcome:
        permit = state.breaker.enter(self._now_ms())
        if permit is None:
            return CIRCUIT_OPEN
        outcome: Outcome | None = None
        try:
            outcome = await self._call(endpoint, check, deadline)
            return outcome
        finally:
            self._learn(state, permit, outcome)

    async def _call(
        self, endpoint: CheckEndpoint, check: Check, deadline: float
    ) -> Outcome:
        try:
            async with asyncio.timeout_at(deadline):
                return await self._post(endpoint, check)
        except TimeoutError:
            return TIMEOUT
        except Exception as error:  # a mistake of ours must not stop the others
            log.error("check-back failed", error=repr(error), exc_info=True)
            return INTERNAL_ERROR

    async def _post(self, endpoint: CheckEndpoint, check: Check) -> Outcome:
        now_ms = self._stamps.now_ns() // 1_000_000
        body = call_body(as_known_in(check, endpoint.namespace), now_ms)
        try:
            headers = call_headers(endpoint, check, now_ms, body)
        except ValueError:
            return BAD_SECRET
        return await self._caller.post(endpoint.url, body, headers)

    def _learn(
        self, state: EndpointState, permit: int, outcome: Outcome | None
    ) -> None:
        """Tell the breaker; `outcome` is None if the call was cancelled."""
        breaker = state.breaker
        if outcome is None or outcome.health == Health.NOTHING:
            breaker.abandoned(permit)
        elif outcome.health == Health.WORKS:
            if breaker.succeeded(permit):
                log.info("check-backs are answered again", endpoint=state.label)
        elif breaker.failed(permit, self._now_ms()):
            log.warning(
                "check-backs fail and are held back for a while",
                endpoint=state.label,
                cause=outcome.verdict.cause,
            )

    def _now_ms(self) -> int:
        """For durations only."""
        return self._clock.monotonic_ns() // 1_000_000
