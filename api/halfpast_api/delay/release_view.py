"""How the release of a topic's scheduled events stands, as the API shows it."""

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from halfpast_api.times import render_instant
from halfpast_chronos.delay_server import DelayServer
from halfpast_chronos.release_calls import AskTopics
from halfpast_core_store.broker import Empty
from halfpast_core_store.errors import CoreError


class ReleaseView(msgspec.Struct, kw_only=True):
    """What waits in the Delay Server, and what for.

    `state`: open | paused | closed | rate_limited | draining | starting. `pending`
    counts what is scheduled, `due_now` what of it is due already, and `oldest_due_at`
    is the earliest due time. `retrying` were not taken at first and are tried again,
    `dead_letters` are not; both count up to 1,000. `exact` is false while `pending`
    is being counted anew.
    """

    state: str
    pending: int
    due_now: int
    oldest_due_at: str | None
    retrying: int
    dead_letters: int
    exact: bool


async def heed_settings(delay: DelayServer) -> None:
    """Let changed settings apply at once. A Delay Server that does not answer now
    looks for them itself, every second."""
    with suppress(CoreError, ConnectionError, TimeoutError):
        await delay.heed_settings(Empty())


async def pending_of(delay: DelayServer, topic_ids: Sequence[int]) -> Sequence[int]:
    """How many events wait, by topic; none while the Delay Server does not answer."""
    if not topic_ids:
        return ()
    try:
        return (await delay.pending_counts(AskTopics(list(topic_ids)))).counts
    except (CoreError, ConnectionError, TimeoutError):
        return ()


async def release_of(
    delay: DelayServer, topic_id: int, *, is_paused: bool
) -> ReleaseView | None:
    """None while the Delay Server does not answer: the settings are shown anyway. It
    knows nothing of a topic where nothing waits, so the settings say what it would do.
    """
    try:
        (state,) = (await delay.topic_states(AskTopics([topic_id]))).topics
    except (CoreError, ConnectionError, TimeoutError):
        return None
    oldest_ms = state.oldest_due_ms
    is_idle = state.release_state == "open" and not state.pending
    return ReleaseView(
        state="paused" if is_idle and is_paused else state.release_state,
        pending=state.pending,
        due_now=state.due_now,
        oldest_due_at=render_instant(oldest_ms) if oldest_ms else None,
        retrying=state.retrying,
        dead_letters=state.dead,
        exact=state.is_exact,
    )
