"""What requests say of many events at once, and how operations are shown."""

from typing import Final

import msgspec

from halfpast_api.event_id import id_text
from halfpast_api.times import render_instant
from halfpast_chronos.operation import (
    EVER_MS,
    BulkAction,
    EventFilter,
    Operation,
    OperationState,
)

STATES: Final = {state.name.lower(): state for state in OperationState}
_STATE_NAMES: Final = {int(state): state.name.lower() for state in OperationState}
_ACTION_NAMES: Final = {int(action): action.name.lower() for action in BulkAction}


class BulkBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Which scheduled events, as `GET /v1/events` has it; all that is given must be
    true of an event. `all` is given where nothing else is, so that nobody means
    everything by mistake."""

    topic: str | None = None
    key: str | None = None
    tag: str | None = None
    due_after: str | None = None
    due_before: str | None = None
    all: bool = False
    dry_run: bool = False


class BulkRescheduleBody(BulkBody, kw_only=True):
    """And to when: by how much, or to which moment."""

    shift_ms: int | None = None
    deliver_at: str | None = None


class FilterView(msgspec.Struct, omit_defaults=True):
    """What an operation is about; empty for everything."""

    topic: str | None = None
    key: str | None = None
    tag: str | None = None
    due_after: str | None = None
    due_before: str | None = None
    source: str | None = None
    group: str | None = None
    endpoint: str | None = None
    ids: list[str] | None = None
    dead_after: str | None = None
    dead_before: str | None = None


class OperationView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How far an operation has come.

    `scanned` events have been looked at, of about `expected`; `matched` are meant, and
    `changed` of these are changed: the rest was just being delivered, or could not
    become earlier; dead letters that could not be had any more are `gone`. `progress`
    goes from 0 to 1, where it can be told. `error`: why it has failed.
    """

    id: str
    action: str
    state: str
    dry_run: bool
    filter: FilterView
    shift_ms: int | None = None
    deliver_at: str | None = None
    scanned: int
    expected: int | None = None
    matched: int
    changed: int
    gone: int = 0
    progress: float | None = None
    error: str = ""
    created_at: str
    finished_at: str | None = None


class OperationPageView(msgspec.Struct):
    """A page of operations, the newest first."""

    operations: list[OperationView]
    next_page_token: str | None


def view_operation(operation: Operation, topic: str) -> OperationView:
    """One operation; `topic` is the name of the topic in its filter."""
    bulk = operation.bulk
    finished_ms = operation.finished_ms
    return OperationView(
        id=id_text(operation.operation_id),
        action=_ACTION_NAMES.get(bulk.action, "unknown"),
        state=_STATE_NAMES.get(operation.state, "unknown"),
        dry_run=bulk.dry_run,
        filter=_view_filter(bulk.filter, topic),
        shift_ms=bulk.shift_ms,
        deliver_at=None if bulk.due_ms is None else render_instant(bulk.due_ms),
        scanned=operation.scanned,
        expected=operation.expected or None,
        matched=operation.matched,
        changed=operation.changed,
        progress=_progress(operation),
        created_at=render_instant(operation.created_ms),
        finished_at=render_instant(finished_ms) if finished_ms else None,
    )


def _view_filter(wanted: EventFilter, topic: str) -> FilterView:
    after_ms, before_ms = wanted.due_after_ms, wanted.due_before_ms
    return FilterView(
        topic or None,
        None if wanted.key is None else wanted.key.decode(errors="replace"),
        None if wanted.tag is None else wanted.tag.decode(errors="replace"),
        render_instant(after_ms) if after_ms else None,
        render_instant(before_ms) if before_ms < EVER_MS else None,
    )


def _progress(operation: Operation) -> float | None:
    if operation.state == OperationState.DONE:
        return 1.0
    if not operation.expected:
        return None
    return min(0.99, round(operation.scanned / operation.expected, 3))
