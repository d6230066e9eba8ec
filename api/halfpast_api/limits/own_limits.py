"""What a caller may ask for, and how much of that is used."""

from typing import Final

from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.config import ApiConfig
from halfpast_api.consume import WAIT_MS_MAX
from halfpast_api.limits.caller_limits import burst_of
from halfpast_api.limits.limit_bodies import (
    OwnLimitsView,
    ServerLimitsView,
    ShareView,
)
from halfpast_api.limits.limiter import Limiter
from halfpast_api.limits.pending_count import PendingCount
from halfpast_api.limits.quota import Share
from halfpast_api.limits.token_bucket import TokenBucket
from halfpast_api.metadata.settings import DELAY_MS_MAX
from halfpast_api.problems import as_refusal
from halfpast_core_store.record import BODY_SIZE_MAX, KEY_SIZE_MAX
from halfpast_core_store.topics import NAME_LENGTH_MAX


class OwnLimitsHandlers:
    """The handler, for one namespace."""

    def __init__(
        self, limiter: Limiter, pending: PendingCount, config: ApiConfig
    ) -> None:
        self._limiter = limiter
        self._pending = pending
        self._server: Final = _of_server(config)

    async def get(self, call: Call) -> Answer:
        """GET /v1/limits"""
        quota = self._limiter.quota_of(call.access)
        now_s = self._limiter.now_s()
        shares = [_view(it, now_s) for it in quota.shares] if quota else []
        try:
            pending = await self._pending.count()
        except Exception as error:  # limits are told without the services too
            if as_refusal(error) is None:
                raise
            pending = None
        view = OwnLimitsView(limits=shares, pending=pending, server=self._server)
        return call.answer(200, view)


def _view(share: Share, now_s: float) -> ShareView:
    limits = share.limits
    return ShareView(
        subject=str(share.subject),
        set_by=str(share.set_by),
        requests_per_s=limits.requests_per_s,
        request_burst=_burst(limits.requests_per_s, limits.request_burst),
        requests_left=_left(share.requests, now_s),
        bytes_per_s=limits.bytes_per_s,
        byte_burst=_burst(limits.bytes_per_s, limits.byte_burst),
        bytes_left=_left(share.bytes, now_s),
        max_pending=limits.max_pending,
        max_delay_ms=limits.max_delay_ms,
    )


def _burst(rate_per_s: float | None, burst: int | None) -> int | None:
    return burst_of(rate_per_s, burst) if rate_per_s else None


def _left(bucket: TokenBucket | None, now_s: float) -> int | None:
    return None if bucket is None else max(0, int(bucket.level(now_s)))


def _of_server(config: ApiConfig) -> ServerLimitsView:
    return ServerLimitsView(
        max_delay_ms=DELAY_MS_MAX,
        event_bytes=BODY_SIZE_MAX,
        batch_bytes=config.bodies.batch_max,
        batch_events=config.bodies.batch_count_max,
        transaction_messages=config.transactions.message_count_max,
        transaction_bytes=config.transactions.message_size_max,
        key_bytes=KEY_SIZE_MAX,
        topic_characters=NAME_LENGTH_MAX,
        pop_wait_ms=WAIT_MS_MAX,
    )
