"""The limits in memory, asked for every request.

While nobody has given any, that costs 0.1 us. Each API process has buckets of its own:
several of them let in so many times as much. A change of limits is heeded within about
a second; what is left in a bucket stays while its rate does.
"""

import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from halfpast_api.access.access import Access
from halfpast_api.limits.caller_limits import CallerLimits, burst_of
from halfpast_api.limits.quota import Quota, Share
from halfpast_api.limits.subject import Subject, subjects_of
from halfpast_api.limits.token_bucket import TokenBucket
from halfpast_api.load.urgency import Urgency

_SIZE_MAX: Final = 100_000
_NONE: Final = CallerLimits()

Asked = tuple[str, str]  # who, and where


class LimitSource(Protocol):
    """What is asked of a `MetadataCache`."""

    @property
    def revision(self) -> int: ...

    def limits(self) -> Mapping[str, Mapping[str, float]]: ...


class Limiter:
    """The limits of all callers of one process."""

    def __init__(
        self,
        source: LimitSource,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self.now_s: Final = monotonic_s
        self._revision = -1
        self._given: dict[str, CallerLimits] = {}
        self._quotas: dict[Asked, Quota | None] = {}
        self._buckets: dict[str, TokenBucket] = {}

    def admit(self, access: Access, urgency: Urgency) -> Quota | None:
        """What holds for this caller; None if nothing does. Raises Refusal."""
        if self._source.revision != self._revision:
            self._learn()
        if not self._given:
            return None
        quota = self.quota_of(access)
        if quota is not None and urgency is not Urgency.FREE:
            quota.enter(self.now_s(), has_reserve=urgency >= Urgency.SETTLING)
        return quota

    def quota_of(self, access: Access) -> Quota | None:
        """The same, without a request."""
        if self._source.revision != self._revision:
            self._learn()
        asked = access.actor, access.namespace
        try:
            return self._quotas[asked]
        except KeyError:
            if len(self._quotas) >= _SIZE_MAX:
                self._quotas.clear()
            found = [it for it in map(self._share, subjects_of(access)) if it]
            quota = self._quotas[asked] = Quota(found) if found else None
            return quota

    def _learn(self) -> None:
        self._revision = self._source.revision
        self._quotas.clear()
        self._given = {
            text: CallerLimits.of(values)
            for text, values in self._source.limits().items()
            if values
        }
        if not self._given or len(self._buckets) >= _SIZE_MAX:
            self._buckets.clear()

    def _share(self, subject: Subject) -> Share | None:
        every = Subject(subject.kind, is_every=True)
        own = self._given.get(str(subject))
        defaults = self._given.get(str(every), _NONE)
        limits = (own or _NONE).over(defaults)
        if not any(limits.values().values()):
            return None
        return Share(
            subject=subject,
            set_by=subject if own else every,
            limits=limits,
            requests=self._bucket(
                f"{subject} requests", limits.requests_per_s, limits.request_burst
            ),
            bytes=self._bucket(
                f"{subject} bytes", limits.bytes_per_s, limits.byte_burst
            ),
        )

    def _bucket(
        self, name: str, rate_per_s: float | None, burst: int | None
    ) -> TokenBucket | None:
        if not rate_per_s:
            self._buckets.pop(name, None)
            return None
        wanted = burst_of(rate_per_s, burst)
        bucket = self._buckets.get(name)
        if bucket is None or bucket.rate_per_s != rate_per_s or bucket.burst != wanted:
            bucket = TokenBucket(rate_per_s, wanted, self.now_s())
            self._buckets[name] = bucket
        return bucket
