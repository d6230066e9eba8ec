"""The couriers of a process: one for each endpoint that is enabled."""

import asyncio
from collections.abc import Mapping

from halfpast_api.metadata.endpoint_settings import ENABLED, EndpointSettings
from halfpast_api.push.courier import Courier
from halfpast_api.push.courier_tools import CourierTools
from halfpast_api.push.topic_match import TopicMatch
from halfpast_core_store.broker import ListTopics

TOPICS_PAGE = 1_000
CHANGE_GRACE_S = 60.0
"""How long calls under way may take where an endpoint is paused, or changed."""


class Couriers:
    """Belongs to one event loop."""

    def __init__(self, tools: CourierTools) -> None:
        self._tools = tools
        self._couriers: dict[str, Courier] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._topics: list[str] = []
        self._heeding = asyncio.Lock()
        self._suspended: set[str] = set()

    def get(self, name: str) -> Courier | None:
        return self._couriers.get(name)

    def all(self) -> list[Courier]:
        return list(self._couriers.values())

    def suspend(self, name: str) -> None:
        """End one at once, whatever the settings say, until `release`."""
        self._suspended.add(name)
        if name in self._couriers:
            self._end(name)

    def release(self, name: str) -> None:
        """From now on the settings count again."""
        self._suspended.discard(name)

    async def heed(self, endpoints: Mapping[str, EndpointSettings]) -> None:
        """Begin, change and end couriers, so that they are what is wanted."""
        async with self._heeding:
            wanted = {
                name: settings
                for name, settings in endpoints.items()
                if settings.state == ENABLED and name not in self._suspended
            }
            for name, courier in list(self._couriers.items()):
                settings = wanted.get(name)
                if settings is None or _is_other(courier, settings):
                    self._end(name)
                elif settings != courier.settings:
                    courier.change(settings)
                    self._take(courier)
            for name, settings in wanted.items():
                # One whose predecessor still ends begins when that is over: order per
                # key would not hold between the two.
                if name not in self._couriers and name not in self._ending:
                    self._begin(name, settings)

    async def look_for_topics(self) -> None:
        """Learn which topics there are, where patterns may match new ones."""
        if not any(
            TopicMatch(it.settings.topics).has_patterns
            for it in self._couriers.values()
        ):
            return
        found: list[str] = []
        while True:
            after = found[-1] if found else ""
            request = ListTopics(after, TOPICS_PAGE)
            page = (await self._tools.broker.list_topics(request)).topics
            found += [topic.name for topic in page]
            if len(page) < TOPICS_PAGE:
                break
        self._topics = found
        for courier in self._couriers.values():
            self._take(courier)

    async def close(self, grace_s: float) -> None:
        """End all of them."""
        async with self._heeding:
            stopping = [courier.stop(grace_s) for courier in self._couriers.values()]
            self._couriers.clear()
            await asyncio.gather(*stopping)
            if self._ending:
                _, late = await asyncio.wait(self._ending.values(), timeout=grace_s)
                for task in late:
                    task.cancel()
                await asyncio.gather(*late, return_exceptions=True)

    def _begin(self, name: str, settings: EndpointSettings) -> None:
        courier = Courier(name, settings, self._tools)
        self._couriers[name] = courier
        courier.start()
        self._take(courier)

    def _take(self, courier: Courier) -> None:
        courier.take_from(TopicMatch(courier.settings.topics).among(self._topics))

    def _end(self, name: str) -> None:
        courier = self._couriers.pop(name)
        ending = asyncio.create_task(courier.stop(CHANGE_GRACE_S))
        self._ending[name] = ending
        ending.add_done_callback(lambda _: self._ending.pop(name, None))


def _is_other(courier: Courier, settings: EndpointSettings) -> bool:
    return Courier.fixed(settings) != Courier.fixed(courier.settings)
