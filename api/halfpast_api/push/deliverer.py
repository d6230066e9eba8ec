"""Calls one endpoint, within its limits, and says what each call means."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import structlog

from halfpast_api.event_id import id_text
from halfpast_api.metadata.endpoint_settings import WEBHOOK, EndpointSettings
from halfpast_api.push.attempt import Attempt, AttemptKind, AttemptState
from halfpast_api.push.call_result import CallResult, Result
from halfpast_api.push.courier_tools import CourierTools
from halfpast_api.push.endpoint_name import split_stored
from halfpast_api.push.envelope import Message, render, signed, webhook_id
from halfpast_api.push.gate import PROBE_MS, Gate, Pass
from halfpast_api.push.held import Held
from halfpast_api.push.retry_schedule import back_off_ms
from halfpast_api.push.tally import EndpointTally
from halfpast_api.push.validation import lower_rate, read_permission, request_headers
from halfpast_txn.circuit_breaker import Circuit

ATTEMPT_HEADER: Final = "halfpast-attempt"
HELD_MS: Final = 1_000
VALIDATION_MS: Final = 1_000
VALIDATION_MS_MAX: Final = 300_000
PAUSE_MS: Final = 250

log = structlog.get_logger("halfpast.push")


@dataclass(frozen=True, slots=True)
class Started:
    """A call that may be made, as the settings are at this moment."""

    given: Pass
    settings: EndpointSettings
    gate: Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is to become of a message: done, dead for a `reason`, or offered again after
    `delay_ms`; that `counts` as an attempt or not."""

    is_done: bool = False
    is_dead: bool = False
    counts: bool = True
    delay_ms: int = 0
    reason: str = ""

    @property
    def is_over(self) -> bool:
        return self.is_done or self.is_dead


class Deliverer:
    """One endpoint as something that can be called."""

    def __init__(
        self, name: str, settings: EndpointSettings, tools: CourierTools
    ) -> None:
        self.name = name
        self.tally = EndpointTally()
        self.in_flight = 0
        self._settings = settings
        self._tools = tools
        self._gate = Gate(tools.config, settings.rate_per_s)
        self._is_valid = settings.mode == WEBHOOK
        self._validations = 0
        self._allowed_per_s = 0.0

    @property
    def circuit(self) -> Circuit:
        return self._gate.circuit

    @property
    def is_careful(self) -> bool:
        """Whether it is better not to take more than one message."""
        return self._gate.circuit is not Circuit.CLOSED or not self._is_valid

    def change(self, settings: EndpointSettings) -> None:
        """Another URL has proved nothing yet, and has not failed either."""
        before, self._settings = self._settings, settings
        if (before.url, before.mode) != (settings.url, settings.mode):
            self._gate = Gate(self._tools.config, settings.rate_per_s)
            self._is_valid = settings.mode == WEBHOOK
            self._validations, self._allowed_per_s = 0, 0.0
        rate_per_s = lower_rate(settings.rate_per_s, self._allowed_per_s)
        self._gate.rate.change(rate_per_s)

    def back_ms(self) -> int:
        """How long the endpoint is left alone; 0 if it is not."""
        return self._gate.back_ms(self._tools.now_ms())

    def gate_ms(self) -> int:
        """How long its gate stays shut, also for its rate; 0 if it is open."""
        return self._gate.wait_ms(self._tools.now_ms())

    def wait_ms(self) -> int:
        """How long to wait before `enter` is tried again."""
        if self._is_full():
            return PAUSE_MS  # or until a call ends
        return max(self._gate.wait_ms(self._tools.now_ms()), PROBE_MS)

    async def enter(self) -> Started | None:
        """Leave for one call, to be used or given up; None if it must wait."""
        if self._is_full():
            return None
        given = self._gate.enter(self._tools.now_ms())
        if given is None:
            return None
        started = Started(given, self._settings, self._gate)
        self.in_flight += 1
        self._tools.budget.calls += 1
        if self._is_valid:
            return started
        is_granted = False
        try:
            is_granted = await self._validate(started)
        finally:
            if not is_granted:
                self._leave(started, None)
        return started if is_granted else None

    def give_up(self, started: Started) -> None:
        """The call is not made."""
        self._leave(started, None)

    async def deliver(self, held: Held, started: Started) -> Outcome:
        """Make the call. Cancelled, it proves nothing."""
        try:
            found = await self._call(held, started.settings)
        except BaseException:
            self._leave(started, None)
            raise
        self._leave(started, found)
        outcome, state = self._judge(held, started, found)
        self._note(held, found, outcome, state)
        return outcome

    def _is_full(self) -> bool:
        concurrency = self._settings.concurrency
        return self.in_flight >= concurrency or not self._tools.budget.may_call(
            self.in_flight
        )

    def _leave(self, started: Started, found: CallResult | None) -> None:
        self.in_flight -= 1
        self._tools.budget.calls -= 1
        was = started.gate.circuit
        if started.gate.leave(started.given, found, self._tools.now_ms()):
            error = found.error if found else ""
            log.warning("endpoint fails, left alone", endpoint=self.name, error=error)
        elif was is not Circuit.CLOSED and started.gate.circuit is Circuit.CLOSED:
            log.info("endpoint answers again", endpoint=self.name)

    async def _call(self, held: Held, settings: EndpointSettings) -> CallResult:
        message = Message(
            namespace=split_stored(self.name)[0],
            topic=held.topic,
            stored_ms=held.stored_ms,
            record=held.record,
            properties=held.properties,
        )
        found = await self._call_traced(held.attempt, settings, message)
        self._tools.tally.called(found)
        self.tally.called(found, self._tools.wall_ms())
        return found

    async def _call_traced(
        self, attempt: int, settings: EndpointSettings, message: Message
    ) -> CallResult:
        async def call(more: Mapping[str, str]) -> CallResult:
            headers = {ATTEMPT_HEADER: str(attempt), **more}
            identity = webhook_id(message, self.name)
            return await call_endpoint(
                self._tools, settings, message, identity, headers
            )

        trace = self._tools.trace
        if trace is None:
            return await call({})
        return await trace.around(message, self.name, attempt, call)

    def _judge(
        self, held: Held, started: Started, found: CallResult
    ) -> tuple[Outcome, AttemptState]:
        settings = started.settings
        if found.is_delivered:
            return Outcome(is_done=True), AttemptState.DELIVERED
        if found.is_gone:
            self._tools.tally.disabled += 1
            self._tools.disable(self.name, settings.url, "it answered 410 Gone")
            return Outcome(counts=False, delay_ms=HELD_MS), AttemptState.HELD
        if held.attempt >= settings.max_attempts:
            self._tools.tally.dead += 1
            return Outcome(is_dead=True, reason=found.error), AttemptState.DEAD
        wait_ms = back_off_ms(
            settings.retry_initial_ms,
            settings.retry_max_ms,
            held.attempt,
            self._tools.random(),
        )
        delay_ms = max(wait_ms, found.retry_after_ms)
        return Outcome(delay_ms=delay_ms), AttemptState.RETRYING

    def _note(
        self, held: Held, found: CallResult, outcome: Outcome, state: AttemptState
    ) -> None:
        now_ms = self._tools.wall_ms()
        attempt = attempt_of(
            self.name,
            self._tools.recorder.number(),
            found,
            now_ms,
            kind=AttemptKind.DELIVERY,
            state=state,
        )
        is_again = state in (AttemptState.RETRYING, AttemptState.HELD)
        self._tools.recorder.note(
            replace(
                attempt,
                event_id=id_text(held.record.event_id),
                topic=held.topic,
                attempt=held.attempt,
                next_attempt_ms=now_ms + outcome.delay_ms if is_again else 0,
            )
        )

    async def _validate(self, started: Started) -> bool:
        """Ask whether anything may be delivered at all."""
        tools, settings = self._tools, started.settings
        origin = tools.config.origin
        headers = request_headers(origin, settings.rate_per_s)
        found = await tools.caller.call(
            "OPTIONS", settings.url, None, headers, settings.timeout_ms
        )
        permission = read_permission(found, origin)
        if self._gate is not started.gate:
            return False  # the settings have changed meanwhile
        state = AttemptState.DELIVERED
        if permission.is_granted:
            self._is_valid, self._allowed_per_s = True, permission.rate_per_s
            rate_per_s = lower_rate(self._settings.rate_per_s, permission.rate_per_s)
            self._gate.rate.change(rate_per_s)
        else:
            wait_ms = back_off_ms(
                VALIDATION_MS, VALIDATION_MS_MAX, self._validations + 1, tools.random()
            )
            self._validations += 1
            self._gate.hold(tools.now_ms() + wait_ms)
            result = Result.NOT_VALIDATED
            found = replace(found, result=result, error=permission.error)
            state = AttemptState.RETRYING
            self.tally.called(found, tools.wall_ms())
        tools.tally.called(found)
        number, now_ms = tools.recorder.number(), tools.wall_ms()
        kind = AttemptKind.VALIDATION
        attempt = attempt_of(self.name, number, found, now_ms, kind=kind, state=state)
        tools.recorder.note(attempt)
        return permission.is_granted


async def call_endpoint(
    tools: CourierTools,
    settings: EndpointSettings,
    message: Message,
    identity: str,
    extra: dict[str, str],
) -> CallResult:
    """One signed POST."""
    body, headers = render(message, settings.mode)
    try:
        headers = signed(
            settings.secrets, identity, tools.stamp_ms(), body, {**headers, **extra}
        )
    except ValueError:
        error = "a secret of the endpoint cannot sign: rotate it"
        return CallResult(result=Result.INTERNAL_ERROR, error=error)
    url, timeout_ms = settings.url, settings.timeout_ms
    return await tools.caller.call("POST", url, body, headers, timeout_ms)


def attempt_of(
    endpoint: str,
    number: int,
    found: CallResult,
    now_ms: int,
    *,
    kind: AttemptKind,
    state: AttemptState,
) -> Attempt:
    """The attempt that a call was."""
    return Attempt(
        endpoint=endpoint,
        number=number,
        kind=kind.value,
        state=state.value,
        event_id="",
        topic="",
        attempt=0,
        at_ms=now_ms - found.duration_ms,
        duration_ms=found.duration_ms,
        result=found.result.value,
        status=found.status,
        error=found.error,
        response=found.response,
    )
