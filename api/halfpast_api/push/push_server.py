"""What a push process does for others, as one protocol with an in-process and a socket
form. Names are those in the store; times are epoch milliseconds, 0 for never."""

from typing import Protocol

import msgspec

from halfpast_core_store.broker import BrokerStatus, Empty


class AskEndpoint(msgspec.Struct, array_like=True):
    """How does this endpoint stand now?"""

    name: str


class EndpointNow(msgspec.Struct, array_like=True):
    """Counted since the push process knows the endpoint; `is_known` is False for one
    that it has not (yet) heard of, or that is paused. `back_until_ms`: when `back_ms`
    will be over, by the clock of that process."""

    is_known: bool = False
    circuit: str = "closed"
    back_ms: int = 0
    in_flight: int = 0
    waiting: int = 0
    delivered: int = 0
    failed: int = 0
    last_delivered_ms: int = 0
    last_failed_ms: int = 0
    last_error: str = ""
    back_until_ms: int = 0


class TestEndpoint(msgspec.Struct, array_like=True):
    """Post a made-up event to an endpoint now, whatever its state, once. The settings
    come along, so that what was just written counts."""

    __test__ = False  # it is no test

    name: str
    url: str
    mode: str
    secrets: list[str]
    timeout_ms: int
    topic: str
    data: bytes


class TestedEndpoint(msgspec.Struct, array_like=True):
    """What came back, and what was sent."""

    __test__ = False

    result: str
    status: int
    error: str
    response: str
    duration_ms: int
    event_id: str
    headers: dict[str, str]
    body: bytes


class PushServer(Protocol):
    """The push process as others see it. Any call may raise a CoreError."""

    async def endpoint_now(self, request: AskEndpoint) -> EndpointNow: ...

    async def test_endpoint(self, request: TestEndpoint) -> TestedEndpoint: ...

    async def heed_settings(self, request: Empty) -> Empty:
        """Look at the settings of endpoints now, not only when it is time."""
        ...

    async def status(self, request: Empty) -> BrokerStatus: ...
