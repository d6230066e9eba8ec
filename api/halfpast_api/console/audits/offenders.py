"""The worst of all, by id, each with what has happened to it."""

from itertools import groupby
from typing import Any, Final

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    and_,
    case,
    func,
    or_,
    select,
)

from halfpast_api.console.audits import reading
from halfpast_api.console.audits.figures import ALL
from halfpast_api.console.audits.scope import Scope
from halfpast_spark import result_tables as tables

SHOWN: Final = 100
SHOWN_EACH: Final = 10

# The gravest first. What an audit knows and this list does not comes behind it.
REASONS: Final = {
    "lost": "was due, and nothing came of it",
    "leaked": "was seen although its transaction is not committed",
    "missing": "is nowhere although its transaction is committed",
    "unbalanced": "the books of its transaction do not balance",
    "difference": "the books of its transaction do not balance",
    "duplicated": "is there more than once",
    "early": "came before its time",
    "fired_anyway": "fired although it had been cancelled",
    "unpublished": "is there, but nobody has published it",
    "parked": "nobody could say its outcome: an operator must decide",
    "dead": "was given up",
    "dead_lettered": "its consumers gave it up",
    "second_phase_lost": "only a check-back brought the outcome",
    "open": "has no outcome yet",
    "waiting": "nobody has consumed it yet",
    "slow": "took long to be consumed",
    "slow_local": "its local transaction took longer than the check-back waited",
    "late": "came late",
}

_GRAVITY: Final = {name: number for number, name in enumerate(REASONS)}


class Happening(msgspec.Struct):
    """One line of a time line; `more` says what else is known of it."""

    at: int
    what: str
    more: dict[str, str]


class Offender(msgspec.Struct, kw_only=True):
    """One event, and what is wrong with it. `lateness_ms` of a transaction: how long
    its outcome took."""

    audit: str
    reason: str
    group: str
    topic: str
    window_start_ms: int
    event_id: str
    due_ms: int | None
    stored_ms: int | None
    lateness_ms: int | None
    timeline: list[Happening]

    @property
    def because(self) -> str:
        """The reason in words."""
        return REASONS.get(self.reason, self.reason.replace("_", " "))


class Offenders(msgspec.Struct):
    """Some of them, the gravest first, and how many there are by reason."""

    shown: list[Offender]
    counts: list[tuple[str, int]]

    @property
    def hidden(self) -> int:
        """How many are not shown."""
        return sum(count for _, count in self.counts) - len(self.shown)


def read_offenders(connection: Connection, scope: Scope, reason: str) -> Offenders:
    """The worst of each reason; many of them if only one reason is asked for."""
    table = tables.offenders
    where: list[ColumnElement[bool]] = [reading.in_scope(table, scope)]
    if scope.topic != ALL:
        where.append(_is_about(scope.topic))
    if scope.group:
        is_theirs = table.c.group_name == scope.group
        where.append(is_theirs | (table.c.audit != "transactions"))
    counted = select(table.c.reason, func.count(table.c.event_id.distinct()))
    counted = counted.where(*where).group_by(table.c.reason)
    counts = [(row[0], row[1]) for row in reading.rows_of(connection, counted)]
    counts.sort(key=lambda it: (_gravity(it[0]), it[0]))
    if reason:
        where.append(table.c.reason == reason)
    each = SHOWN if reason else SHOWN_EACH
    place = func.row_number().over(
        partition_by=(table.c.audit, table.c.reason), order_by=_order()
    )
    worst = _select().where(*where).add_columns(place.label("number")).subquery()
    query = select(*(worst.c[name] for name in _COLUMNS))
    query = query.where(worst.c.number <= 2 * each).order_by(worst.c.number)
    found = _found(connection, query)
    found.sort(key=lambda it: _gravity(it.reason))
    shown = [
        it
        for _, some in groupby(found, key=lambda it: it.reason)
        for it in list(some)[:each]
    ]
    return Offenders(shown[:SHOWN], counts)


def read_offences(connection: Connection, event_id: str) -> list[Offender]:
    """All that is wrong with one event."""
    chosen = tables.offenders.c.event_id == event_id
    query = _select().where(chosen).order_by(*_order()).limit(SHOWN)
    found = _found(connection, query)
    return sorted(found, key=lambda it: _gravity(it.reason))


def _is_about(topic: str) -> ColumnElement[bool]:
    """Transactions are listed once, for all topics; their time lines name those."""
    of = tables.offenders.c
    told = of.timeline.contains(f'"topic":"{topic}"', autoescape=True)
    return or_(of.topic == topic, and_(of.topic == ALL, told))


def _gravity(reason: str) -> int:
    return _GRAVITY.get(reason, len(_GRAVITY))


def _select() -> Any:
    return select(*(tables.offenders.c[name] for name in _COLUMNS))


def _order() -> tuple[ColumnElement[Any], ...]:
    """The farthest from its time first, whether before it or after."""
    of = tables.offenders.c
    size = case((of.lateness_ms < 0, -of.lateness_ms), else_=of.lateness_ms)
    return func.coalesce(size, -1).desc(), of.place, of.window_start_ms, of.event_id


_COLUMNS: Final = (
    "audit",
    "reason",
    "group_name",
    "topic",
    "window_start_ms",
    "event_id",
    "due_ms",
    "stored_ms",
    "lateness_ms",
    "timeline",
)


def _found(connection: Connection, query: Executable) -> list[Offender]:
    """Each once, though it may be among the worst of its topic and of all topics."""
    found: dict[tuple[str, str, str], Offender] = {}
    for row in reading.rows_of(connection, query):
        audit, reason, group, topic, start_ms, event_id, *times, timeline = row
        key = audit, reason, event_id
        if key in found and topic == ALL:
            continue
        found[key] = Offender(
            audit=audit,
            reason=reason,
            group=group,
            topic=topic,
            window_start_ms=start_ms,
            event_id=event_id,
            due_ms=times[0],
            stored_ms=times[1],
            lateness_ms=times[2],
            timeline=read_timeline(timeline),
        )
    return list(found.values())


def read_timeline(text: str) -> list[Happening]:
    """What a job has written; a line without time or kind is left out."""
    try:
        lines = msgspec.json.decode(text, type=list[dict[str, Any]])
    except msgspec.MsgspecError:
        return []
    found: list[Happening] = []
    for line in lines:
        at, what = line.pop("at", None), line.pop("what", None)
        if isinstance(at, int) and isinstance(what, str):
            more = {name: str(value) for name, value in line.items()}
            found.append(Happening(at, what, more))
    return found
