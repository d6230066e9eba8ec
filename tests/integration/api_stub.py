"""Services that fail on demand, for what real ones do only on bad days."""

from typing import Any

from halfpast_chronos.delay_server import DelayServer, GotEvent
from halfpast_core_store.broker import (
    Append,
    Appended,
    Broker,
    BrokerStatus,
    Empty,
    FoundEvent,
    Popped,
    ResolvedTopics,
    ResolveTopics,
    TopicInfo,
)
from halfpast_txn.transactions import (
    End,
    Ended,
    EndResult,
    EndTransactions,
    GotTransaction,
    Transactions,
)


class StubServices:
    """Stands for broker, Delay Server and transaction service alike.

    Every call raises `error` if that is set; `appended` keeps what was to be stored,
    `ended` which outcomes were asked for, each of which is answered `end_result`.
    """

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.appended: list[Append] = []
        self.ended: list[End] = []
        self.end_result = EndResult()
        self.gauges: dict[str, float] = {}

    @property
    def broker(self) -> Broker:
        broker: Any = self
        return broker  # type: ignore[no-any-return]

    @property
    def delay(self) -> DelayServer:
        delay: Any = self
        return delay  # type: ignore[no-any-return]

    @property
    def transactions(self) -> Transactions:
        transactions: Any = self
        return transactions  # type: ignore[no-any-return]

    @property
    def all(self) -> tuple[Broker, DelayServer, Transactions]:
        return self.broker, self.delay, self.transactions

    async def append(self, request: Append) -> Appended:
        self._fail()
        self.appended.append(request)
        return Appended(position=0, stored_ms=0)

    async def resolve_topics(self, request: ResolveTopics) -> ResolvedTopics:
        return ResolvedTopics(
            [TopicInfo(1024 + i, name, 4) for i, name in enumerate(request.names)]
        )

    async def status(self, request: Empty) -> BrokerStatus:
        self._fail()
        return BrokerStatus({}, dict(self.gauges))

    async def pop(self, request: object) -> Popped:
        self._fail()
        return Popped([])

    async def get_event(self, request: object) -> GotEvent:
        self._fail()
        return GotEvent(None)

    async def get(self, request: object) -> GotTransaction:
        self._fail()
        return GotTransaction(None)

    async def end(self, request: EndTransactions) -> Ended:
        self._fail()
        self.ended += request.ends
        return Ended([self.end_result] * len(request.ends))

    async def find_event(self, request: object) -> FoundEvent:
        self._fail()
        return FoundEvent(None)

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error
