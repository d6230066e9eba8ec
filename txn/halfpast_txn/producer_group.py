"""What the service must know of a producer group: where to call it back.

The policy of its check-backs is not here: it is written with each transaction.
"""

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckEndpoint:
    """Where a producer group answers check-backs by HTTP.

    `secrets` sign the call after Standard Webhooks (`whsec_…`), newest first; every
    one of them gives a signature, so that a secret can be replaced without a gap.
    """

    url: str
    secrets: tuple[str, ...] = field(default=(), repr=False)

    timeout_ms: int = 5_000
    """For one question: its turn, the call, and the whole answer."""

    concurrency_max: int = 8
    """Calls at once."""

    namespace: str = ""
    """That of the group, which its names are told without."""


class ProducerGroups(Protocol):
    """Where endpoints come from. Asked for every check-back, so it answers at once."""

    def check_endpoint(self, group: str) -> CheckEndpoint | None:
        """None if the group has none: then its producers poll."""
        ...
