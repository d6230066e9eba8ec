"""One endpoint at work: messages are popped, take their turn, are posted and settled.

    topics ──pop──> arrive ──> lines (per key) ──> ready ──> call ──> settle
                      │            │                           │
                      └ not wanted └ wait for an earlier one   └ again later, or dead

Everything that is held here is hidden from others, and extended as long as it is. What
cannot be called for a while goes back to the broker.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

import structlog

from halfpast_api.metadata.endpoint_settings import PER_KEY, EndpointSettings
from halfpast_api.push.courier_tools import CourierTools
from halfpast_api.push.deliverer import Deliverer, Started
from halfpast_api.push.endpoint_name import group_of
from halfpast_api.push.event_match import EventMatch
from halfpast_api.push.held import Held, hold
from halfpast_api.push.in_flight import key_of, list_in_flight
from halfpast_api.push.lines import Lines, Turn
from halfpast_api.push.settler import Settler
from halfpast_core_store.broker import Delivered, GroupPolicy, Pop
from halfpast_core_store.errors import CoreError

WINDOW_ORDERED: Final = 1_000
"""Messages held for a `per_key` endpoint: enough to find keys that can go on."""
POP_MAX: Final = 100
POP_SIZE_MAX: Final = 1024 * 1024
RETRY_S: Final = 0.5
SEND_BACK_MS: Final = 2_000
"""Whoever has to wait for longer than this waits with the broker."""
AWAY_MS: Final = 500
RECONCILE_S: Final = 30.0
LOOK_MS: Final = 250
ATTEMPTS_SLACK: Final = 100
"""A message that a crash has cost its last attempt gets another one."""

log = structlog.get_logger("halfpast.push")


class Courier:
    """Runs from `start` to `stop`, in one event loop. `settings` may be changed by
    `change`, but for those in `fixed`."""

    def __init__(
        self, name: str, settings: EndpointSettings, tools: CourierTools
    ) -> None:
        self.name = name
        self.settings = settings
        self.deliverer = Deliverer(name, settings, tools)
        self._tools = tools
        self._group = group_of(name)
        self._match = EventMatch(settings.filter)
        self._settler = Settler(tools.broker, self._group, tools.now_ms)
        self._lines: Lines[Held] = Lines()
        self._ready: deque[Held] = deque()
        self._held: set[Held] = set()
        self._held_size = 0
        self._changed = asyncio.Event()
        self._nudged = asyncio.Event()
        self._pullers: dict[str, asyncio.Task[None]] = {}
        self._dispatcher: asyncio.Task[None] | None = None
        self._upkeep: list[asyncio.Task[None]] = []
        self._deliveries: set[asyncio.Task[None]] = set()
        self._stopping = False

    @property
    def in_flight(self) -> int:
        return self.deliverer.in_flight

    @property
    def waiting(self) -> int:
        return len(self._held) - self.in_flight

    @staticmethod
    def fixed(settings: EndpointSettings) -> tuple[object, ...]:
        """What takes a new courier if it changes."""
        return settings.ordering, settings.filter

    @property
    def is_busy(self) -> bool:
        """Whether calls are under way, or could be."""
        calls = bool(self._deliveries) or self.deliverer.in_flight > 0
        return calls or (bool(self._ready) and not self.deliverer.gate_ms())

    def nudge(self) -> None:
        """Time has passed, or the topics are others: look again at once."""
        self._nudged.set()
        self._changed.set()

    def change(self, settings: EndpointSettings) -> None:
        """Go on with other settings; what is under way ends as it began."""
        assert self.fixed(settings) == self.fixed(self.settings)
        self.settings = settings
        self.deliverer.change(settings)
        self._changed.set()

    def start(self) -> None:
        self._dispatcher = self._spawn(self._dispatch())
        self._upkeep = [self._spawn(self._keep()), self._spawn(self._reconcile())]

    def take_from(self, topics: Sequence[str]) -> None:
        """Pop from these topics, and from no others."""
        for topic in [it for it in self._pullers if it not in topics]:
            self._pullers.pop(topic).cancel()
        for topic in topics:
            if topic not in self._pullers and not self._stopping:
                self._pullers[topic] = self._spawn(self._pull(topic))

    async def stop(self, grace_s: float) -> None:
        """Pop no more, give back what was not tried, and let what is under way end, but
        for what takes longer than `grace_s`: that is delivered again."""
        self._stopping = True
        await _cancel([*self._pullers.values(), *filter(None, [self._dispatcher])])
        idle = [*self._ready, *(held for _, _, held in self._lines.waiting())]
        self._ready.clear()
        if idle:
            self._work(self._release(idle, 0))
        if self._deliveries:
            _, late = await asyncio.wait(self._deliveries, timeout=grace_s)
            await _cancel(late)
        await _cancel(self._upkeep)
        self._settler.close()
        for held in list(self._held):
            self._let_go(held)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._tools.fail(error)

    # --- taking messages ----------------------------------------------------------

    async def _pull(self, topic: str) -> None:
        if self.settings.ordering == PER_KEY:
            await self._patiently(lambda: self._learn(topic))
        while True:
            await self._patiently(lambda: self._pop(topic))

    async def _patiently(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Until it is done; the broker may be away, the topic may not exist yet."""
        while True:
            with suppress(CoreError, OSError):
                return await work()
            self._nudged.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S):
                    await self._nudged.wait()

    async def _learn(self, topic: str) -> None:
        """What is in flight already holds back what comes behind it."""
        tools = self._tools
        for place in await list_in_flight(tools.broker, self._group, topic):
            key = await key_of(tools.broker, topic, place)
            if key:
                line = topic, place.queue, key
                until_ms = tools.now_ms() + place.visible_ms - tools.wall_ms()
                self._lines.learn(line, place.offset, until_ms)

    async def _pop(self, topic: str) -> None:
        await self._until(self._has_room)
        share = max(1, self._room() // max(1, len(self._pullers)))
        count = 1 if self.deliverer.is_careful else min(share, POP_MAX)
        config, is_ordered = self._tools.config, self.settings.ordering == PER_KEY
        begun_ms = self._tools.now_ms()
        popped = await self._tools.broker.pop(
            Pop(
                group=self._group,
                topic=topic,
                count=count,
                wait_ms=config.wait_ms,
                invisible_ms=config.invisible_ms,
                tags=self._match.tags,
                policy=GroupPolicy(
                    attempts_max=self.settings.max_attempts + ATTEMPTS_SLACK,
                    in_flight_max=config.in_flight_ordered_max
                    if is_ordered
                    else config.in_flight_parallel_max,
                ),
                size_max=POP_SIZE_MAX,
            )
        )
        now_ms = self._tools.now_ms()
        if not popped.messages and now_ms - begun_ms < config.wait_ms // 2:
            await asyncio.sleep(RETRY_S)  # the broker ends, and answers at once
        hidden_until_ms = now_ms + config.invisible_ms
        for delivered in popped.messages:
            self._arrive(delivered, topic, hidden_until_ms, ordered=is_ordered)

    def _room(self) -> int:
        window = 2 * self.settings.concurrency
        if self.settings.ordering == PER_KEY:
            window = max(WINDOW_ORDERED, window)
        return window - len(self._held)

    def _has_room(self) -> bool:
        return (
            self._room() > 0
            and not self.deliverer.back_ms()
            and self._tools.budget.may_hold(self._held_size)
        )

    def _arrive(
        self, delivered: Delivered, topic: str, hidden_until_ms: int, *, ordered: bool
    ) -> None:
        held = hold(delivered, topic, hidden_until_ms, ordered=ordered)
        self._held.add(held)
        self._held_size += held.size
        self._tools.budget.size += held.size
        if not self._match(held.record.tag, held.properties):
            self._tools.tally.filtered += 1
            self._work(self._drop(held))
        elif held.line is None:
            self._ready.append(held)
            self._changed.set()
        else:
            now_ms = self._tools.now_ms()
            self._turn(self._lines.arrive(held.line, held.offset, held, now_ms))

    def _turn(self, turn: Turn[Held]) -> None:
        if self._stopping:
            return  # all that waited has been given back
        self._ready.extend(turn.go)
        by_delay: dict[int, list[Held]] = {}
        for held, delay_ms in turn.later:
            by_delay.setdefault(delay_ms, []).append(held)
        for delay_ms, some in by_delay.items():
            self._work(self._release(some, delay_ms))
        self._changed.set()

    def _work(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._spawn(work)
        self._deliveries.add(task)
        task.add_done_callback(self._deliveries.discard)

    def _let_go(self, held: Held) -> None:
        if held in self._held:
            self._held.remove(held)
            self._held_size -= held.size
            self._tools.budget.size -= held.size
        self._changed.set()

    async def _drop(self, held: Held) -> None:
        try:
            await self._settler.ack(held)
        finally:
            self._let_go(held)

    async def _release(self, some: Sequence[Held], delay_ms: int) -> None:
        try:
            await self._settler.release(some, delay_ms)
        finally:
            for held in some:
                self._let_go(held)

    # --- delivering -----------------------------------------------------------------

    async def _dispatch(self) -> None:
        """Call for what is ready, as far as that is allowed."""
        while True:
            await self._until(lambda: bool(self._ready))
            if self.deliverer.back_ms() > SEND_BACK_MS:
                self._send_back_all()
                continue
            started = await self.deliverer.enter()
            if started is None:
                await self._pause(self.deliverer.wait_ms())
                continue
            if not self._ready:
                self.deliverer.give_up(started)
                continue
            held = self._ready.popleft()
            self._work(self._deliver(held, started))

    def _send_back_all(self) -> None:
        """Nothing can be called for long, so what is held waits elsewhere. Nothing is
        popped meanwhile, so it can be had again as soon as that is over."""
        now_ms, back_ms = self._tools.now_ms(), AWAY_MS
        some, self._ready = [*self._ready], deque[Held]()
        for key, offset, held in [*self._lines.waiting()]:
            self._lines.give_back(key, offset, now_ms + back_ms)
            some.append(held)
        for held in some:
            if held.line is not None and not self._lines.is_away(
                held.line, held.offset
            ):
                until_ms = now_ms + back_ms
                turn = self._lines.send_back(held.line, held.offset, until_ms, now_ms)
                self._turn(turn)
        self._work(self._release(some, back_ms))

    async def _deliver(self, held: Held, started: Started) -> None:
        try:
            outcome = await self.deliverer.deliver(held, started)
            self._changed.set()  # another may be called while this one is settled
            is_settled = True
            if outcome.is_done:
                is_settled = await self._settler.ack(held)
            elif outcome.is_dead:
                is_settled = await self._settler.bury(held, outcome.reason)
            elif outcome.counts:
                is_settled = await self._settler.nack(held, outcome.delay_ms)
            else:
                await self._settler.release([held], outcome.delay_ms)
            self._go_on(held, outcome.delay_ms, is_over=outcome.is_over and is_settled)
        finally:
            self._let_go(held)

    def _go_on(self, held: Held, delay_ms: int, *, is_over: bool) -> None:
        """The rest of the line."""
        if held.line is None:
            return
        now_ms = self._tools.now_ms()
        if is_over:
            turn = self._lines.done(held.line, held.offset, now_ms)
        else:
            until_ms = now_ms + delay_ms
            turn = self._lines.send_back(held.line, held.offset, until_ms, now_ms)
        self._turn(turn)

    # --- upkeep ---------------------------------------------------------------------

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait for a change that makes it true; look again now and then, since time
        alone changes things too."""
        while not condition():
            await self._pause(LOOK_MS)

    async def _pause(self, pause_ms: int) -> None:
        """Until something has changed, but no longer."""
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_ms / 1000):
                await self._changed.wait()

    async def _keep(self) -> None:
        """Extend what is held before others get it."""
        invisible_ms = self._tools.config.invisible_ms
        while True:
            await asyncio.sleep(invisible_ms / 3 / 1000)
            soon_ms = self._tools.now_ms() + invisible_ms * 2 // 3
            some = [it for it in self._held if it.hidden_until_ms <= soon_ms]
            if some:
                await self._settler.extend(some, invisible_ms)

    async def _reconcile(self) -> None:
        """Forget what the broker does not have in flight any more: it was dropped by
        retention, or dealt with by hand."""
        while self.settings.ordering == PER_KEY:
            await asyncio.sleep(RECONCILE_S)
            for topic in list(self._pullers):
                with suppress(CoreError, OSError):
                    await self._reconcile_topic(topic)

    async def _reconcile_topic(self, topic: str) -> None:
        tools = self._tools
        found = await list_in_flight(tools.broker, self._group, topic)
        now_ms = tools.now_ms()
        ahead_ms = now_ms - tools.wall_ms()
        places = {(it.queue, it.offset): it.visible_ms + ahead_ms for it in found}
        self._turn(self._lines.keep_only(topic, places, now_ms))


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    some = list(tasks)
    for task in some:
        task.cancel()
    await asyncio.gather(*some, return_exceptions=True)
