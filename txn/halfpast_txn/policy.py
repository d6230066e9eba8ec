"""When a producer is asked how its transaction ended, and how often.

The defaults are RocketMQ's `transactionTimeOut`, `transactionCheckInterval` and
`transactionCheckMax`; the interval grows here, so that a producer that is away for
an hour finds its transactions still in doubt and not given up.
"""

import msgspec

CHECK_INTERVAL_MS_MAX = 600_000
"""The interval doubles up to this, or stays where it is if that is longer."""


class CheckPolicy(msgspec.Struct, array_like=True, frozen=True):
    """Times in ms. It is written with the transaction, which keeps it."""

    check_after_ms: int = 6_000
    """From the beginning to the first check-back."""

    check_interval_ms: int = 30_000
    """From the first check-back to the second; then twice as long each time."""

    check_max: int = 15
    """After so many check-backs without an outcome it is parked."""


def interval_ms(policy_interval_ms: int, checks: int) -> int:
    """How long to wait after check-back number `checks` (1, 2, …)."""
    longest = max(policy_interval_ms, CHECK_INTERVAL_MS_MAX)
    return min(longest, policy_interval_ms << min(checks - 1, 30))
