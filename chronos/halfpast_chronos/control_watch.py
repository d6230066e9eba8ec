"""Learning what topics may release: their names from the broker, then their controls.

A topic that the Delay Server meets for the first time is held until this is known,
which takes one call to the broker.
"""

import asyncio

from halfpast_core_store.broker import Broker, TopicNames
from halfpast_core_store.rpc_errors import UNSURE

from . import keys
from .core import DelayCore
from .firer import Firer
from .standing import Standing
from .topic_controls import UNKNOWN, TopicControls

LOOK_S = 0.25
RETRY_S = 0.1
NAME_COUNT = 500  # asked for in one call
APPLY_COUNT = 200  # controls applied in one step


class ControlWatch:
    """Keeps the core up to date with `controls`."""

    def __init__(
        self,
        core: DelayCore,
        broker: Broker,
        controls: TopicControls,
        standing: Standing,
        firer: Firer,
    ) -> None:
        self._core = core
        self._broker = broker
        self._controls = controls
        self._standing = standing
        self._firer = firer
        self._names: dict[int, str] = {}
        self._nameless: set[int] = set()
        self._met = asyncio.Event()
        self._revision = controls.revision
        self._lock = asyncio.Lock()

    def look(self) -> None:
        """Timers have come; perhaps of topics that are new here."""
        if self._core.horizon.strangers:
            self._met.set()

    async def heed(self) -> None:
        """Look for changed controls now; those that there are apply afterwards.
        Raises UNSURE."""
        await self._controls.refresh()
        await self._keep_up()

    async def meet(self) -> None:
        """Learn about all topics that are held for want of that. Raises UNSURE."""
        async with self._lock:
            await self._meet()

    async def _meet(self) -> None:
        strangers = self._core.horizon.strangers
        while strangers:
            topic_ids = [keys.timer_topic(prefix) for prefix in strangers[:NAME_COUNT]]
            answer = await self._broker.topics_by_id(TopicNames(topic_ids))
            del strangers[: len(topic_ids)]
            for topic_id, info in zip(topic_ids, answer.topics, strict=True):
                if info is None:
                    self._nameless.add(topic_id)
                    self._core.control(topic_id, UNKNOWN)
                else:
                    self._nameless.discard(topic_id)
                    self._names[topic_id] = info.name
                    self._apply(topic_id)

    async def run(self) -> None:
        """Keep them up to date, for ever."""
        while True:
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._met.wait()
            except TimeoutError:
                pass
            self._met.clear()
            try:
                await self._keep_up()
            except UNSURE:
                self._standing.lose()
                await asyncio.sleep(RETRY_S)

    async def _keep_up(self) -> None:
        if self._core.horizon.strangers:
            await self.meet()
            self._firer.look()
        if self._controls.revision != self._revision:
            self._revision = self._controls.revision
            for number, topic_id in enumerate(list(self._names)):
                self._apply(topic_id)
                if number % APPLY_COUNT == APPLY_COUNT - 1:
                    await asyncio.sleep(0)
            for topic_id in self._nameless:
                self._core.horizon.strangers.append(keys.timer_prefix(topic_id))
            self._firer.look()

    def _apply(self, topic_id: int) -> None:
        name = self._names[topic_id]
        self._core.control(topic_id, self._controls.topic_control(name))
