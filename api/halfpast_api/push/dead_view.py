"""Dead letters of consumer groups, and operations on them, as the API shows them."""

import msgspec

from halfpast_api.access.namespaced_names import names_in
from halfpast_api.delay.bulk_bodies import FilterView, OperationView
from halfpast_api.event_id import id_text
from halfpast_api.push.dead_reading import DeadMessage
from halfpast_api.push.endpoint_name import endpoint_of, split_stored
from halfpast_api.push.operation import EVER_MS, Operation, Source, State, Wish
from halfpast_api.times import render_instant


class DeadMessageView(msgspec.Struct, kw_only=True):
    """A message that its group did not acknowledge within its attempts. `number` is its
    place among the dead letters of the group."""

    id: str
    source: str
    group: str
    endpoint: str | None
    topic: str
    queue: int
    offset: int
    key: str | None
    tag: str | None
    properties: dict[str, str]
    state: str = "dead"
    created_at: str
    dead_at: str
    attempts: int
    reason: str
    number: int


class DeadMessagePageView(msgspec.Struct):
    """A page of dead letters, the longest dead first."""

    dead_letters: list[DeadMessageView]
    next_page_token: str | None


class DeadCountView(msgspec.Struct, kw_only=True):
    """How many dead letters of a group nobody has dealt with."""

    source: str
    group: str
    endpoint: str | None
    dead_letters: int


class DeadCountsView(msgspec.Struct):
    """A page of groups that have dead letters, in the order of their names."""

    counts: list[DeadCountView]
    next_page_token: str | None


def source_of(group: str) -> tuple[str, str | None]:
    """Where a group's dead letters come from, and the endpoint if it is one's."""
    endpoint = endpoint_of(group)
    if endpoint is None:
        return Source.GROUP.value, None
    return Source.ENDPOINT.value, endpoint


def view_dead(message: DeadMessage, group: str, namespace: str) -> DeadMessageView:
    """One dead letter; `group` by its name in the namespace."""
    record, dead = message.record, message.dead
    source, endpoint = source_of(group)
    return DeadMessageView(
        id=id_text(record.event_id),
        source=source,
        group=group,
        endpoint=endpoint,
        topic=names_in(namespace).outside(dead.topic) or dead.topic,
        queue=dead.queue,
        offset=dead.offset,
        key=_text(record.key),
        tag=_text(record.tag),
        properties=message.properties,
        created_at=render_instant(record.born_ms),
        dead_at=render_instant(message.dead_ms),
        attempts=dead.attempts,
        reason=dead.reason,
        number=message.number,
    )


def view_operation(operation: Operation) -> OperationView:
    """One operation, in the form of all operations."""
    finished_ms = operation.finished_at_ms
    return OperationView(
        id=operation.id,
        action=operation.action,
        state=operation.state,
        dry_run=operation.dry_run,
        filter=_view_wish(operation.wish),
        scanned=operation.scanned,
        expected=operation.expected or None,
        matched=operation.matched,
        changed=operation.changed,
        gone=operation.gone,
        progress=_progress(operation),
        error=operation.error,
        created_at=render_instant(operation.created_at_ms),
        finished_at=render_instant(finished_ms) if finished_ms else None,
    )


def _view_wish(wish: Wish) -> FilterView:
    group = split_stored(wish.group)[1]
    endpoint = endpoint_of(group) if group else None
    return FilterView(
        topic=split_stored(wish.topic)[1] or None,
        key=wish.key,
        tag=wish.tag,
        source=wish.source,
        group=group or None,
        endpoint=endpoint,
        ids=list(wish.ids) or None,
        dead_after=render_instant(wish.dead_after_ms) if wish.dead_after_ms else None,
        dead_before=render_instant(wish.dead_before_ms)
        if wish.dead_before_ms < EVER_MS
        else None,
    )


def _progress(operation: Operation) -> float | None:
    if operation.state == State.DONE:
        return 1.0
    if not operation.expected:
        return None
    return min(0.99, round(operation.scanned / operation.expected, 3))


def _text(data: bytes) -> str | None:
    return data.decode(errors="replace") if data else None
