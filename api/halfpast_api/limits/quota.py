"""What one caller may still ask for: its buckets, and the bounds of what it stores."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from halfpast_api.limits.caller_limits import CallerLimits
from halfpast_api.limits.rate_headers import Headers, Rate, rate_headers
from halfpast_api.limits.subject import Subject
from halfpast_api.limits.token_bucket import TokenBucket
from halfpast_api.problems import Refusal

_NOW: Final = 0.001
"""Seconds; what comes sooner has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What the limits of one subject leave its callers. `set_by`: whose limits they
    are, which may be those of all of its kind."""

    subject: Subject
    set_by: Subject
    limits: CallerLimits
    requests: TokenBucket | None
    bytes: TokenBucket | None


class Quota:
    """All that holds for one caller."""

    __slots__ = ("_rates", "max_delay_ms", "max_pending", "shares")

    def __init__(self, shares: Sequence[Share]) -> None:
        self.shares: Final = tuple(shares)
        delays = [it.limits.max_delay_ms for it in shares if it.limits.max_delay_ms]
        self.max_delay_ms: Final = min(delays, default=0)
        """0: only the topic's own bound."""
        self.max_pending: Final = max(it.limits.max_pending or 0 for it in shares)
        """Of the namespace; 0: no bound."""
        rates: list[Rate] = []
        for share in shares:
            kind = share.subject.kind
            if share.requests is not None:
                rates.append(Rate(kind, share.requests, "requests"))
            if share.bytes is not None:
                rates.append(Rate(f"{kind}-bytes", share.bytes, "content-bytes"))
        self._rates: Final = tuple(rates)

    def enter(self, now_s: float, *, has_reserve: bool) -> None:
        """One request more. Raises Refusal; then nothing is taken.

        What ends something (an ack, a commit) and what administers has a reserve as
        large as the burst: a limit in its way would make more work, not less.
        """
        for share in self.shares:
            bucket = share.requests
            if bucket is not None:
                reserve = bucket.burst if has_reserve else 0.0
                wait_s = bucket.wait_s(1 - reserve, now_s)
                if wait_s > _NOW:
                    raise self._refusal("rate_limited", share, wait_s, now_s)
            bucket = share.bytes
            if bucket is not None and not has_reserve:
                wait_s = bucket.wait_s(1, now_s)
                if wait_s > _NOW:
                    raise self._refusal("bytes_limited", share, wait_s, now_s)
        for share in self.shares:
            if share.requests is not None:
                share.requests.take(1, now_s)

    def charge(self, size: int, now_s: float) -> None:
        """The request's body was so large. It is never refused for that, but what
        comes next waits until it is paid for."""
        if size:
            for share in self.shares:
                if share.bytes is not None:
                    share.bytes.take(size, now_s)

    def headers(self, now_s: float) -> Headers:
        """How it stands, for every answer."""
        return rate_headers(self._rates, now_s)

    def _refusal(self, code: str, share: Share, wait_s: float, now_s: float) -> Refusal:
        limits, whose = share.limits, str(share.set_by)
        if code == "rate_limited":
            what = f"{limits.requests_per_s:g} requests a second"
        else:
            what = f"{limits.bytes_per_s:g} bytes a second"
        return Refusal(
            code,
            f"the limit of {whose} is {what}, and it is used up; nothing was done: "
            "repeat this after Retry-After, send events in batches, or have the limit "
            "raised (GET /v1/limits shows it)",
            headers=[
                ("Retry-After", str(max(1, math.ceil(wait_s)))),
                *self.headers(now_s),
            ],
        )
