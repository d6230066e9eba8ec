"""Attempts of an endpoint, as the API shows them."""

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

import msgspec
from sqlalchemy import Connection

from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.event_id import id_text, parse_id
from halfpast_api.metadata.settings_store import SettingsStore
from halfpast_api.page_token import parse_token, render_token
from halfpast_api.push import attempt_store
from halfpast_api.push.attempt import FAILED, Attempt, AttemptState
from halfpast_api.push.endpoint_name import split_stored, stored_name
from halfpast_api.push.endpoints import find_endpoint
from halfpast_api.times import render_instant

_LIMIT_MAX: Final = 1000
_NUMBER_MAX: Final = 2**63 - 1
_STATES: Final = ("", FAILED, *(state.value for state in AttemptState))
R = TypeVar("R")


class Reads(Protocol):
    """What is needed of a `MetadataStore`."""

    async def read(self, work: Callable[[Connection], R]) -> R: ...


class AttemptView(msgspec.Struct, kw_only=True):
    """One attempt. `status` is null where there was no answer; `event_id` and `topic`
    for a handshake."""

    id: str
    endpoint: str
    kind: str
    state: str
    event_id: str | None
    topic: str | None
    attempt: int
    at: str
    duration_ms: int
    result: str
    status: int | None
    error: str
    response: str
    next_attempt_at: str | None


class AttemptPageView(msgspec.Struct):
    """A page of attempts, the newest first."""

    attempts: list[AttemptView]
    next_page_token: str | None


class AttemptHandlers:
    """The handler for attempts, of one namespace."""

    def __init__(self, namespace: str, metadata: SettingsStore, rows: Reads) -> None:
        self._namespace = namespace
        self._metadata = metadata
        self._rows = rows

    async def list(self, call: Call) -> Answer:
        """GET /v1/endpoints/{name}/attempts"""
        query = call.query("event_id", "state", "limit", "page_token")
        event_id = query.text("event_id")
        if event_id is not None:
            event_id = id_text(parse_id(event_id))
        state = query.choice("state", "", _STATES)
        limit = query.integer("limit", 100, 1, _LIMIT_MAX)
        token = parse_token(query.text("page_token"))
        before = _number(token) if token else None
        entry = await find_endpoint(self._metadata, call)
        stored = stored_name(self._namespace, entry.name)
        found = await self._rows.read(
            lambda connection: attempt_store.page(
                connection,
                stored,
                event_id=event_id,
                state=state or None,
                before=before,
                limit=limit,
            )
        )
        last = b""
        if len(found) == limit:
            last = found[-1].number.to_bytes(8, "big")
        views = [_view(attempt) for attempt in found]
        return call.answer(200, AttemptPageView(views, render_token(last)))


def _number(token: bytes) -> int:
    """Where a page ends. A forged token may hold more than a database can."""
    number = int.from_bytes(token[:8], "big")
    if number > _NUMBER_MAX:
        parse_token("?")  # refuses it
    return number


def _view(attempt: Attempt) -> AttemptView:
    next_ms = attempt.next_attempt_ms
    return AttemptView(
        id=f"{attempt.number:016x}",
        endpoint=split_stored(attempt.endpoint)[1],
        kind=attempt.kind,
        state=attempt.state,
        event_id=attempt.event_id or None,
        topic=split_stored(attempt.topic)[1] or None,
        attempt=attempt.attempt,
        at=render_instant(attempt.at_ms),
        duration_ms=attempt.duration_ms,
        result=attempt.result,
        status=attempt.status or None,
        error=attempt.error,
        response=attempt.response,
        next_attempt_at=render_instant(next_ms) if next_ms else None,
    )
