"""How a check-back reaches a producer that has an endpoint: the port.

`http_transport.py` is the real one. An answer counts only if it is explicit; all
else is `unknown`, with the cause for the operator.
"""

from dataclasses import dataclass
from typing import Protocol

from .producer_group import CheckEndpoint
from .transactions import Check


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`state`: COMMITTED, ROLLED_BACK, or 0 for unknown; then `cause` says why:
    `unknown` (the producer said so), `timeout`, `http 503`, `not json`, `refused
    address`, `redirect`, `circuit open`, `busy`, `connection failed`, …"""

    state: int
    cause: str = ""


class CheckTransport(Protocol):
    """Asks a producer group's endpoint. Never raises for what the world does."""

    async def ask(self, endpoint: CheckEndpoint, check: Check) -> Verdict:
        """One question; comes back within `endpoint.timeout_ms`."""
        ...

    def counters(self) -> dict[str, float]: ...

    def gauges(self) -> dict[str, float]: ...

    async def close(self) -> None: ...
