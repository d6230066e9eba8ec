"""How the release of a topic stands: what waits there, and what for."""

from collections.abc import Iterator

from . import keys
from .core import DelayCore
from .delay_server import Event, EventPage
from .due_query import DueQuery
from .release_calls import ListDead, TopicState

EVER_MS = 2**63 - 1
PAGE_SIZE = 4 * 1024 * 1024


def topic_state(core: DelayCore, topic_id: int) -> Iterator[TopicState | None]:
    """The last one is the answer; between the others somebody else may work."""
    query = DueQuery(
        core.index, core.due_counts, [topic_id], 0, core.now_ms() + 1, EVER_MS
    )
    while query.step():
        yield None
    prefix = keys.timer_prefix(topic_id)
    end = keys.timer_prefix(topic_id + 1)
    first = core.index.scan_keys(prefix, end, 1)
    yield TopicState(
        topic_id,
        release_state(core, topic_id),
        core.due_counts.pending(topic_id),
        query.total(),
        keys.timer_due_ms(first[0]) if first else 0,
        core.failing.retrying(topic_id),
        core.failing.dead(topic_id),
        core.due_counts.is_exact_of(topic_id),
    )


def release_state(core: DelayCore, topic_id: int) -> str:
    """One word for what the topic's timers wait for, beside their time."""
    if core.failing.closed(topic_id):
        return "closed"
    word = core.horizon.release_state(keys.timer_prefix(topic_id))
    return "draining" if word == "open" and core.is_draining else word


def list_dead(core: DelayCore, request: ListDead) -> EventPage:
    """One page of dead events."""
    start, end = keys.dead_range(request.topic_id)
    found = core.index.scan(max(start, request.after), end, request.limit)
    wanted = frozenset(() if request.topic_id else request.topic_ids)
    events: list[Event] = []
    size = 0
    token = b""
    for key, record in found:
        event = core.event(key[-16:])
        token = key + b"\0"
        if event is not None and (not wanted or event.topic_id in wanted):
            events.append(event.public(key[-16:], record))
            size += len(record)
        if size >= PAGE_SIZE:
            return EventPage(events, token)
    return EventPage(events, token if len(found) == request.limit else b"")
