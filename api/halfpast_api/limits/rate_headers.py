"""`RateLimit` and `RateLimit-Policy`, as the IETF's draft has them.

    RateLimit-Policy: "key";q=200;w=2, "namespace-bytes";q=9000;w=2;qu="content-bytes"
    RateLimit: "key";r=163;t=1, "namespace-bytes";r=8120;t=1

q is allowed in w seconds, r is left now, and after t seconds all of q is there again.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from halfpast_api.limits.token_bucket import TokenBucket

Headers = list[tuple[str, str]]

POLICY: Final = "RateLimit-Policy"
REMAINING: Final = "RateLimit"
_LARGEST: Final = 999_999_999_999_999  # of a structured field


class Rate(NamedTuple):
    """A bucket with its name in the headers."""

    name: str
    bucket: TokenBucket
    unit: str


def rate_headers(rates: Sequence[Rate], now_s: float) -> Headers:
    """None where nothing has a rate."""
    if not rates:
        return []
    return [
        (POLICY, ", ".join(map(_policy, rates))),
        (REMAINING, ", ".join(_left(it, now_s) for it in rates)),
    ]


def _policy(rate: Rate) -> str:
    bucket = rate.bucket
    window_s = max(1, math.ceil(bucket.burst / bucket.rate_per_s))
    allowed = min(_LARGEST, max(1, int(bucket.rate_per_s * window_s)))
    unit = "" if rate.unit == "requests" else f';qu="{rate.unit}"'
    return f'"{rate.name}";q={allowed};w={window_s}{unit}'


def _left(rate: Rate, now_s: float) -> str:
    bucket = rate.bucket
    left = min(_LARGEST, max(0, int(bucket.level(now_s))))
    return f'"{rate.name}";r={left};t={math.ceil(bucket.wait_s(bucket.burst, now_s))}'
