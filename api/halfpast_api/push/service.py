"""The push process: a courier for each endpoint that is enabled, and what goes with it.

    metadata cache ──> endpoints ──> couriers ──> their topics, as they come and go
                                         └──> attempts ──> metadata database

It keeps nothing of its own: what was delivered and what failed, the broker knows. One
process at a time works; another one takes over when it is started.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

import structlog

from halfpast_api.metadata.clock import system_now_ms
from halfpast_api.metadata.endpoint_settings import (
    DISABLED,
    ENABLED,
    EndpointSettings,
)
from halfpast_api.metadata.errors import MetadataError
from halfpast_api.metadata.store import MetadataStore
from halfpast_api.push.attempt_trace import AttemptTrace
from halfpast_api.push.budget import Budget
from halfpast_api.push.caller import Caller
from halfpast_api.push.config import PushConfig
from halfpast_api.push.courier import Courier
from halfpast_api.push.courier_tools import CourierTools
from halfpast_api.push.couriers import Couriers
from halfpast_api.push.operation_runner import OperationRunner
from halfpast_api.push.push_server import (
    AskEndpoint,
    EndpointNow,
    TestedEndpoint,
    TestEndpoint,
)
from halfpast_api.push.recorder import Recorder
from halfpast_api.push.tally import Tally
from halfpast_api.push.tester import try_endpoint
from halfpast_chronos.delay_server import DelayServer
from halfpast_core_store.broker import Acquire, Broker, BrokerStatus, Empty, Hold
from halfpast_core_store.errors import CoreError, FenceLost
from halfpast_core_store.folder import FolderLock
from halfpast_core_store.ports import Clock
from halfpast_core_store.real_clock import RealClock
from halfpast_core_store.virtual_clock import virtual

ROLE: Final = "push"
LOOK_S: Final = 0.25
TOPICS_S: Final = 2.0
ROLE_S: Final = 1.0
FORGET_S: Final = 3600.0
NO_POSITION: Final = 2**63 - 1
"""It needs no part of the log to be kept."""
GRACE_S: Final = 5.0
"""How long calls under way may take at the end."""
DISABLE_AGAIN_S: Final = 5.0
SHOWN_MAX: Final = 100

Now = Callable[[], int]
log = structlog.get_logger("halfpast.push")


class EndpointCache(Protocol):
    """What is needed of a `MetadataCache`."""

    def endpoints(self) -> Mapping[str, EndpointSettings]: ...

    async def refresh(self) -> bool: ...


class PushService:
    """Implements `push_server.PushServer` on a broker and the metadata."""

    def __init__(
        self,
        broker: Broker,
        delay: DelayServer,
        metadata: MetadataStore,
        cache: EndpointCache,
        caller: Caller,
        config: PushConfig,
        lock: FolderLock,
        clock: Clock,
        trace: AttemptTrace | None,
    ) -> None:
        self._broker = broker
        self._metadata = metadata
        self._cache = cache
        self._lock = lock
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[None] = self._loop.create_future()
        # The numbers of attempts stay different while a virtual clock stands still.
        self._recorder = Recorder(metadata, config.attempts_kept, system_now_ms)
        self._now_ms: Now = lambda: clock.monotonic_ns() // 1_000_000
        self._wall_ms: Now = lambda: clock.now_ns() // 1_000_000
        self._tools = CourierTools(
            broker=broker,
            caller=caller,
            recorder=self._recorder,
            tally=Tally(),
            budget=Budget(config),
            config=config,
            now_ms=self._now_ms,
            wall_ms=self._wall_ms,
            stamp_ms=system_now_ms,
            random=random.random,
            disable=self._disable,
            fail=self._fail,
            trace=trace,
        )
        self._couriers = Couriers(self._tools)
        self._operations = OperationRunner(broker, delay, metadata, self._wall_ms)
        moved = virtual(clock)
        self._alarm = moved.alarm(self._nudge, self._loop.call_soon) if moved else None
        self._token = 0
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []
        self._disabling: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(
        cls,
        folder: Path,
        broker: Broker,
        delay: DelayServer,
        metadata: MetadataStore,
        cache: EndpointCache,
        caller: Caller,
        config: PushConfig,
        clock: Clock | None = None,
        trace: AttemptTrace | None = None,
    ) -> "PushService":
        """Take the role and begin. Raises FolderInUse and what the broker raises."""
        lock = FolderLock(folder, ROLE)
        clock = clock or RealClock()
        service = cls(
            broker, delay, metadata, cache, caller, config, lock, clock, trace
        )
        try:
            await service._take_role()
        except BaseException:
            lock.close()
            raise
        service._recorder.start()
        for work in (
            service._follow_settings,
            service._follow_topics,
            service._keep_role,
            service._forget,
            service._operations.run,
        ):
            service._spawn(work())
        return service

    async def flush_attempts(self) -> None:
        """Until all attempts that were made are kept."""
        await self._recorder.flush()

    async def settle(self) -> bool:
        """Deliver what can be delivered by now. True if there may be more to do. For a
        clock that is moved by hand, which then stops where a gate opens."""
        await self._couriers.heed(self._cache.endpoints())
        with suppress(CoreError, OSError):
            await self._couriers.look_for_topics()
        self._nudge()
        couriers = self._couriers.all()
        shut_ms = [ms for it in couriers if (ms := it.deliverer.gate_ms())]
        if self._alarm:
            self._alarm.set(self._wall_ms() + min(shut_ms) if shut_ms else None)
        if any(it.is_busy for it in couriers):
            return True
        await self._recorder.flush()
        return False

    def _nudge(self) -> None:
        for courier in self._couriers.all():
            courier.nudge()

    async def close(self) -> None:
        """Take no more messages, let calls end, give back what was not tried. It does
        no harm to do so twice."""
        if self._closed:
            return
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._couriers.close(GRACE_S)
        if self._disabling:
            _, late = await asyncio.wait(self._disabling, timeout=GRACE_S)
            for task in late:
                task.cancel()
        await self._recorder.stop()
        if not self.failed.done():
            self.failed.cancel()
        self._lock.close()

    # --- following ------------------------------------------------------------------

    async def _follow_settings(self) -> None:
        while True:
            await self._couriers.heed(self._cache.endpoints())
            await asyncio.sleep(LOOK_S)

    async def _follow_topics(self) -> None:
        while True:
            with suppress(CoreError, OSError):
                await self._couriers.look_for_topics()
            await asyncio.sleep(TOPICS_S)

    async def _take_role(self) -> None:
        self._token = (await self._broker.acquire(Acquire(ROLE))).token

    async def _keep_role(self) -> None:
        """Notice that another process has taken over: then this one ends."""
        while True:
            await asyncio.sleep(ROLE_S)
            try:
                await self._broker.hold(Hold(ROLE, self._token, NO_POSITION))
            except FenceLost as error:
                if error.held:
                    raise
                await self._take_role()  # the broker was restarted
            except (CoreError, OSError):
                pass  # it is away; the couriers wait as well

    async def _forget(self) -> None:
        while True:
            await asyncio.sleep(FORGET_S)
            await self._recorder.forget_others(set(self._cache.endpoints()))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                self._fail(error)

        task = self._loop.create_task(work)
        task.add_done_callback(ended)
        self._tasks.append(task)

    def _fail(self, error: BaseException) -> None:
        log.error("push failed", error=repr(error), exc_info=error)
        if not self.failed.done():
            self.failed.set_exception(error)

    def _disable(self, name: str, url: str, reason: str) -> None:
        self._couriers.suspend(name)
        task = self._loop.create_task(self._write_disabled(name, url, reason))
        self._disabling.add(task)
        task.add_done_callback(self._disabling.discard)

    async def _write_disabled(self, name: str, url: str, reason: str) -> None:
        """Unless somebody has given it another URL, or a state, meanwhile."""
        try:
            entry = await self._metadata.endpoint(name)
            if entry is None or entry.settings.state != ENABLED:
                return
            if entry.settings.url != url:
                return
            disabled = replace(entry.settings, state=DISABLED, reason=reason)
            await self._metadata.put_endpoint(name, disabled, expected=entry.version)
            log.warning("endpoint disabled", endpoint=name, reason=reason)
            await self._cache.refresh()
        except MetadataError as error:  # it is tried again with the next answer
            log.warning("endpoint not disabled", endpoint=name, error=str(error))
            await asyncio.sleep(DISABLE_AGAIN_S)
        finally:
            self._couriers.release(name)

    # --- questions ------------------------------------------------------------------

    async def endpoint_now(self, request: AskEndpoint) -> EndpointNow:
        courier = self._couriers.get(request.name)
        if courier is None:
            return EndpointNow()
        return _now_of(courier, self._wall_ms())

    async def test_endpoint(self, request: TestEndpoint) -> TestedEndpoint:
        return await try_endpoint(self._tools, request)

    async def heed_settings(self, request: Empty) -> Empty:
        if await self._cache.refresh():
            await self._couriers.heed(self._cache.endpoints())
        return Empty()

    async def status(self, request: Empty) -> BrokerStatus:
        couriers = self._couriers.all()
        counters = dict(self._tools.tally.counters())
        counters["push_attempts_unrecorded_total"] = self._recorder.dropped
        gauges: dict[str, float] = {
            "push_endpoints": len(couriers),
            "push_in_flight": sum(it.in_flight for it in couriers),
            "push_waiting": sum(it.waiting for it in couriers),
            "push_held_bytes": self._tools.budget.size,
        }
        troubled = sorted(couriers, key=lambda it: -it.deliverer.circuit)
        for courier in troubled[:SHOWN_MAX]:
            name = f'push_endpoint_circuit{{endpoint="{courier.name}"}}'
            gauges[name] = courier.deliverer.circuit
        return BrokerStatus(counters, gauges)


def _now_of(courier: Courier, wall_ms: int) -> EndpointNow:
    deliverer = courier.deliverer
    tally, back_ms = deliverer.tally, deliverer.back_ms()
    return EndpointNow(
        is_known=True,
        circuit=deliverer.circuit.name.lower(),
        back_ms=back_ms,
        back_until_ms=wall_ms + back_ms,
        in_flight=courier.in_flight,
        waiting=courier.waiting,
        delivered=tally.delivered,
        failed=tally.failed,
        last_delivered_ms=tally.last_delivered_ms,
        last_failed_ms=tally.last_failed_ms,
        last_error=tally.last_error,
    )
