"""What clients were told, against what lies in the log: each difference a Problem.

Pure functions, so that tests can feed them forged histories. A message is known
again by the `serial` inside its payload, since an event whose request was never
answered has no id that the client knows.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from halfpast_loadtest.message import Message

SERIAL = re.compile(rb'"serial": ?"([^"]+)"')


class Fate(Enum):
    """What the answers promised about one event."""

    ONCE = "once"  # acknowledged and due: in the log exactly once
    NEVER = "never"  # a cancel was answered `cancelled`
    WAITING = "waiting"  # acknowledged, due after the check: not in the log yet
    AT_MOST_ONCE = "at_most_once"  # no answer: either way, but not twice


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One event as its producer knows it. Times in epoch ms.

    `due_ms` holds the times it may be due at (two after an unanswered reschedule),
    and is empty for an immediate event or if no answer told it; `due_floor_ms` is
    the earliest that the producer asked for. Events of one `lane` were sent one
    after the other with one key, `sequence` counting up. Events of one
    `atomic_group` were sent in one atomic request.
    """

    serial: str
    topic: str
    fate: Fate
    data: bytes
    event_id: str = ""
    due_ms: frozenset[int] = frozenset()
    due_floor_ms: int = 0
    lane: str = ""
    sequence: int = 0
    atomic_group: str = ""


class Problem(NamedTuple):
    """One broken promise. `kind` is a word to count by."""

    kind: str
    subject: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}: {self.detail}"


def due_set(due_ms: int | None) -> frozenset[int]:
    """One due time as `Expectation.due_ms`."""
    return frozenset[int]() if due_ms is None else frozenset({due_ms})


def serial_of(data: bytes) -> str:
    """The serial in a payload, or a text that matches none."""
    found = SERIAL.search(data)
    return found[1].decode() if found else f"payload without a serial {data[:60]!r}"


def check_log(
    expectations: Iterable[Expectation], messages: Iterable[Message]
) -> list[Problem]:
    """Every problem that the log, read from its start, shows with these answers."""
    expected = {one.serial: one for one in expectations}
    seen: dict[str, list[Message]] = defaultdict(list)
    for message in messages:
        seen[serial_of(message.data)].append(message)
    problems = [
        Problem("unknown_message", serial, f"nobody sent {_place(copies[0])}")
        for serial, copies in seen.items()
        if serial not in expected
    ]
    for serial, expectation in expected.items():
        problems += _check_count(expectation, seen.get(serial, []))
        for message in seen.get(serial, []):
            problems += _check_message(expectation, message)
    problems += _check_lanes(expected, seen)
    problems += _check_groups(expected, seen)
    return problems


def check_queues(messages: Iterable[Message]) -> list[Problem]:
    """Offsets without gap or repetition, store times that never go back."""
    queues: dict[tuple[str, int], list[Message]] = defaultdict(list)
    for message in messages:
        queues[message.topic, message.queue].append(message)
    problems: list[Problem] = []
    for (topic, queue), held in queues.items():
        name = f"{topic}/{queue}"
        for at, message in enumerate(held):
            if message.offset != at:
                detail = f"offset {message.offset} where {at} belongs"
                problems.append(Problem("queue_gap", name, detail))
                break
        for before, after in pairwise(held):
            if after.stored_ms < before.stored_ms:
                detail = f"stored_at goes back at offset {after.offset}"
                problems.append(Problem("out_of_order", name, detail))
                break
    return problems


def check_same_prefix(
    earlier: Iterable[Message], later: Iterable[Message]
) -> list[Problem]:
    """What was once read at an offset is there for ever."""
    now = {(one.topic, one.queue, one.offset): one for one in later}
    problems: list[Problem] = []
    for message in earlier:
        again = now.get((message.topic, message.queue, message.offset))
        if again is None or (again.id, again.data) != (message.id, message.data):
            detail = f"another message, or none, at {_place(message)} than before"
            problems.append(Problem("rewritten_log", message.id, detail))
    return problems


def check_states(
    expectations: Iterable[Expectation],
    states: Mapping[str, str],
    messages: Iterable[Message],
    checked_ms: int,
) -> list[Problem]:
    """The state that GET tells of an event, against the log. `states` by event id.

    `checked_ms`: when that was asked. What may have a later due time, since the
    answer to a change or a cancel never came, may be waiting still.
    """
    logged = {message.id for message in messages}
    problems: list[Problem] = []
    for one in expectations:
        state = states.get(one.event_id)
        if state is None:
            continue
        if one.fate is Fate.NEVER:
            allowed = {"cancelled"}
        elif one.event_id in logged:
            allowed = {"delivered", "stored"}
        elif one.fate is Fate.AT_MOST_ONCE:
            allowed = {"cancelled", "unknown_event"}
            if max(one.due_ms, default=0) > checked_ms:
                allowed.add("scheduled")
        else:
            allowed = {"scheduled"}
        if state not in allowed:
            detail = f"GET says {state}, not {' or '.join(sorted(allowed))}"
            problems.append(Problem("wrong_state", one.serial, detail))
    return problems


def check_consumption(
    logged: Iterable[Message],
    popped: Iterable[Message],
    popped_after_ack: Iterable[Message],
) -> list[Problem]:
    """A group that emptied its topics has had every message, none after its ack."""
    seen = {(one.topic, one.queue, one.offset) for one in popped}
    problems = [
        Problem("not_consumed", message.id, f"never popped from {_place(message)}")
        for message in logged
        if (message.topic, message.queue, message.offset) not in seen
    ]
    problems += [
        Problem("acked_again", message.id, f"popped after its ack, {_place(message)}")
        for message in popped_after_ack
    ]
    return problems


def _check_count(one: Expectation, copies: list[Message]) -> list[Problem]:
    count = len({(copy.topic, copy.queue, copy.offset) for copy in copies})
    if count > 1:
        places = ", ".join(_place(copy) for copy in copies)
        return [Problem("duplicate", one.serial, f"{count} times in the log: {places}")]
    if count == 0 and one.fate is Fate.ONCE:
        return [Problem("lost", one.serial, f"acknowledged {one.event_id} is gone")]
    if count == 1 and one.fate is Fate.NEVER:
        detail = f"cancelled, and yet in the log at {_place(copies[0])}"
        return [Problem("cancelled_but_delivered", one.serial, detail)]
    return []


def _check_message(one: Expectation, message: Message) -> list[Problem]:
    problems: list[Problem] = []

    def report(kind: str, detail: str) -> None:
        problems.append(Problem(kind, one.serial, f"{detail} at {_place(message)}"))

    due_ms = max(one.due_floor_ms, message.due_ms or 0, min(one.due_ms, default=0))
    if message.stored_ms < due_ms:
        report("early", f"{due_ms - message.stored_ms} ms before its time")
    elif one.fate is Fate.WAITING:
        report("early", "not due yet")
    if one.due_ms and message.due_ms not in one.due_ms:
        report("wrong_due_time", f"due {message.due_ms}, not {sorted(one.due_ms)}")
    if one.event_id and message.id != one.event_id:
        report("wrong_id", f"{message.id}, acknowledged as {one.event_id}")
    if message.topic != one.topic:
        report("wrong_topic", f"sent to {one.topic}")
    if message.data != one.data:
        report("wrong_payload", f"{message.data[:80]!r}, sent {one.data[:80]!r}")
    return problems


def _check_lanes(
    expected: Mapping[str, Expectation], seen: Mapping[str, list[Message]]
) -> list[Problem]:
    lanes: dict[str, list[tuple[int, Message]]] = defaultdict(list)
    for serial, copies in seen.items():
        one = expected.get(serial)
        if one is not None and one.lane:
            lanes[one.lane].append((one.sequence, copies[0]))
    problems: list[Problem] = []
    for lane, events in lanes.items():
        events.sort(key=lambda event: event[0])
        if len({(message.topic, message.queue) for _, message in events}) > 1:
            problems.append(Problem("split_key", lane, "one key in several queues"))
            continue
        for (_, before), (sequence, after) in pairwise(events):
            if after.offset < before.offset:
                detail = (
                    f"number {sequence} at {_place(after)} overtook {before.offset}"
                )
                problems.append(Problem("out_of_order", lane, detail))
    return problems


def _check_groups(
    expected: Mapping[str, Expectation], seen: Mapping[str, list[Message]]
) -> list[Problem]:
    sizes: dict[str, list[bool]] = defaultdict(list)
    for serial, one in expected.items():
        unanswered = one.fate is Fate.AT_MOST_ONCE and not one.event_id
        if one.atomic_group and (unanswered or one.fate is Fate.ONCE):
            sizes[one.atomic_group].append(serial in seen)
    return [
        Problem("torn_batch", group, f"{sum(there)} of {len(there)} events are there")
        for group, there in sizes.items()
        if any(there) and not all(there)
    ]


def _place(message: Message) -> str:
    return f"{message.topic}/{message.queue}@{message.offset}"
