"""The client: publish now or later, change your mind, consume, transact."""

from types import TracebackType
from typing import TYPE_CHECKING, Self

from halfpast.bulk_events import BulkEvents
from halfpast.clock_calls import ClockCalls
from halfpast.consuming import Consuming
from halfpast.credentials import Credentials
from halfpast.gather import GatherLimits
from halfpast.publishing import Publishing
from halfpast.recurring import Recurring
from halfpast.retry import RetryPolicy
from halfpast.scheduled_events import ScheduledEvents
from halfpast.transacting import Transacting
from halfpast.transaction_calls import TransactionCalls
from halfpast.transport import Transport

if TYPE_CHECKING:  # bring OpenTelemetry, which need not be there
    from opentelemetry.trace import TracerProvider

    from halfpast.traces import Traces


class Client(
    Publishing,
    ScheduledEvents,
    Consuming,
    Transacting,
    Recurring,
    BulkEvents,
    ClockCalls,
):
    """Speaks to one Halfpast server. Use it inside `async with`, from one loop.

    Every call may raise a `HalfpastError`. A publish that returns is durable on
    the server's disk. Calls are tried again within the time of `retry`; publishes
    carry an idempotency key, so that this never makes a second event.

    With `gather` the publishes that callers make at about the same time travel
    together, and so do beginnings and ends of transactions: several times faster,
    and each still gets its own answer. Give `GatherLimits` in place of True to tune
    it.

    `api_key` is what the server asks for, unless it asks nobody; without one
    HALFPAST_API_KEY counts. With a key of the whole suite `namespace` says where to
    act (or HALFPAST_NAMESPACE).

    With `tracing` (True, or a tracer provider) publishing and handling are spans of
    OpenTelemetry, and events carry their trace along; it takes `opentelemetry-api`.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:7080",
        *,
        gather: bool | GatherLimits = False,
        retry: RetryPolicy | None = None,
        api_key: str | None = None,
        namespace: str | None = None,
        tracing: "bool | TracerProvider" = False,
    ) -> None:
        limits = GatherLimits() if gather is True else (gather or None)
        credentials = Credentials.found(api_key, namespace)
        traces = _traces(tracing) if tracing else None
        http = Transport(
            base_url, retry or RetryPolicy(), credentials=credentials, traces=traces
        )
        super().__init__(http, limits)
        self._transactions = TransactionCalls(self._http, limits)

    async def __aenter__(self) -> Self:
        await self._http.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Send what was gathered, wait for its answers, drop the connections."""
        if self._gatherer is not None:
            await self._gatherer.drain()
        await self._transactions.drain()
        await self._http.close()

    @property
    def traces(self) -> "Traces | None":
        """For a consumer of this client; None without `tracing`."""
        return self._http.traces

    @property
    def base_url(self) -> str:
        return self._http.base_url


def _traces(provider: "bool | TracerProvider") -> "Traces":
    from halfpast.traces import Traces

    return Traces(None if isinstance(provider, bool) else provider)
