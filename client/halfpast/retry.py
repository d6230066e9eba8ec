"""When to try again, and when to stop.

This is a small loop of our own (in `transport.py`) and not a retry library, for
three reasons: one time budget must bound the attempts *and* the pauses together,
`Retry-After` has to win over the back-off, and what the last error means depends
on whether an earlier attempt may have reached the server.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long one call may take and how attempts are spaced. In seconds.

    `total_s` bounds everything, pauses included; a long poll gets its waiting
    time on top. `attempt_s` bounds one request. `unreachable_s` gives up sooner
    where nobody answers at all: None waits the whole time, for a server to start.
    """

    total_s: float = 30.0
    attempt_s: float = 10.0
    unreachable_s: float | None = None
    backoff_initial_s: float = 0.05
    backoff_max_s: float = 2.0

    def pause_s(
        self, attempt: int, chance: float, retry_after_s: float | None = None
    ) -> float:
        """How long to wait after attempt number `attempt`, counted from 1.

        `chance` is a uniform number in 0..1, so that many clients which failed
        together do not come back together. What the server asked for is the
        least, never the most.
        """
        exponent = min(attempt - 1, 32)  # a float overflows at about 1000
        ceiling = min(self.backoff_max_s, self.backoff_initial_s * 2.0**exponent)
        return (retry_after_s or 0.0) + ceiling * chance


def worth_repeating(status: int, retryable: bool) -> bool:
    """Whether a later attempt may be answered otherwise.

    The server's word counts. Without it (a proxy answered), overload and
    gateway errors pass by themselves; a full disk does not.
    """
    return retryable or status in _PASSING


# 500 is among them since publishes carry an idempotency key: to repeat is safe.
_PASSING = frozenset({408, 429, 500, 502, 503, 504})
