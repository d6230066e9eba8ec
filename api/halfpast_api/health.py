"""Whether the process lives, whether it can work, and what it counts."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from halfpast_api.answer import Answer
from halfpast_api.bodies import BodyReceiver
from halfpast_api.call import Call
from halfpast_api.exposition import CONTENT_TYPE, Exposition, Observed
from halfpast_api.load.shedder import Shedder
from halfpast_api.long_poll import LongPolls
from halfpast_api.problems import Refusal
from halfpast_api.push.push_server import PushServer
from halfpast_api.watchdog import Watchdog
from halfpast_chronos.delay_server import DelayServer
from halfpast_core_store.broker import Broker, BrokerStatus, Empty
from halfpast_txn.transactions import Transactions


class AliveView(msgspec.Struct):
    """The process answers."""

    status: str = "ok"


class ReadyView(msgspec.Struct, kw_only=True):
    """All that requests need answers.

    A `read_only` broker takes no events, since its disk is full, but consumers go
    on. With `stale` metadata events flow by the last known settings; while `push` is
    `away` deliveries to endpoints wait.
    """

    status: str = "ready"
    broker: str
    delay: str = "ok"
    transactions: str = "ok"
    push: str | msgspec.UnsetType = msgspec.UNSET
    metadata: str


class Freshness(Protocol):
    """What is asked of a `MetadataCache`."""

    @property
    def stale_since_ms(self) -> int | None: ...


class HealthHandlers:
    """Handlers for whoever runs the server."""

    def __init__(
        self,
        broker: Broker,
        delay: DelayServer,
        transactions: Transactions,
        freshness: Freshness,
        timeout_s: float,
        exposition: Exposition,
        observe: Callable[[], Observed],
        push: PushServer | None = None,
    ) -> None:
        self._broker = broker
        self._delay = delay
        self._transactions = transactions
        self._freshness = freshness
        self._timeout_s = timeout_s
        self._exposition = exposition
        self._observe = observe
        self._push = push
        self.also: Final[dict[str, Callable[[], BrokerStatus]]] = {}
        """What else in this process counts, by name."""

    async def alive(self, call: Call) -> Answer:
        """GET /healthz"""
        return call.answer(200, AliveView())

    async def ready(self, call: Call) -> Answer:
        """GET /readyz"""
        statuses = await self.statuses()
        reasons = [
            f"{name}: {reason}"
            for name, status in statuses.items()
            if name != "push" and (reason := why_not_ready(name, status))
        ]
        if reasons:
            raise Refusal(
                "not_ready",
                f"{'; '.join(reasons)}; ask again in a moment",
                headers=[("Retry-After", "1")],
            )
        stale = self._freshness.stale_since_ms is not None
        full = _gauge(statuses["broker"], "store_writable") == 0
        view = ReadyView(
            broker="read_only" if full else "ok", metadata="stale" if stale else "ok"
        )
        if self._push is not None:
            is_away = isinstance(statuses["push"], Exception)
            view.push = "away" if is_away else "ok"
        return call.answer(200, view)

    async def metrics(self, call: Call) -> Answer:
        """GET /metrics"""
        statuses = await self.statuses()
        observed = self._observe()
        observed.services.update(
            (name, status if isinstance(status, BrokerStatus) else None)
            for name, status in statuses.items()
        )
        observed.services.update((name, it()) for name, it in self.also.items())
        return Answer(200, self._exposition.render(observed), (), CONTENT_TYPE)

    async def statuses(self) -> dict[str, BrokerStatus | Exception]:
        """What each service says of itself, or why it says nothing."""
        services = {
            "broker": self._broker.status,
            "delay": self._delay.status,
            "transactions": self._transactions.status,
        }
        if self._push is not None:
            services["push"] = self._push.status

        async def ask(name: str) -> BrokerStatus | Exception:
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await services[name](Empty())
            except TimeoutError:
                return TimeoutError(f"no answer within {self._timeout_s:g} s")
            except Exception as error:  # whatever it is, it is not ready
                return error

        found = await asyncio.gather(*map(ask, services))
        return dict(zip(services, found, strict=True))


def observer(
    watchdog: Watchdog,
    polls: LongPolls,
    receiver: BodyReceiver,
    freshness: Freshness,
    shedder: Shedder,
) -> Callable[[], Observed]:
    """What this process itself knows, but for its requests."""

    def observe() -> Observed:
        return Observed(
            services={},
            connections=watchdog.open,
            ended=dict(watchdog.ended),
            long_polls=len(polls),
            body_bytes=receiver.held,
            metadata_stale=freshness.stale_since_ms is not None,
            shed=shedder.refused,
            work_units=shedder.window.units,
            work_units_max=shedder.window.size,
            loop_late_s=shedder.window.late_s,
        )

    return observe


def why_not_ready(name: str, status: BrokerStatus | Exception) -> str:
    """Why a service cannot be used, empty if it can."""
    if isinstance(status, Exception):
        return str(status) or repr(status)
    if name == "delay" and _gauge(status, "delay_server_ready") == 0:
        return "the Delay Server is catching up with the log"
    if name == "transactions" and _gauge(status, "txn_service_ready") == 0:
        return "the transaction service is catching up with the log"
    return ""


def _gauge(status: BrokerStatus | Exception, name: str) -> float | None:
    return status.gauges.get(name) if isinstance(status, BrokerStatus) else None
