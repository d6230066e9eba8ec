"""What audits must count, from the journal of a load and the faults put into its log.

Plain sums over ids, written without a look at how the audits do it. Windows are left
out: timers that are due after the last one count as `later`. How late a message is
depends on the machine: only with an SLA of hours is it known what is within it.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from halfpast_loadtest.audit_faults import Faults
from halfpast_loadtest.audit_journal import CHECKED, COMMITTED, Journal

ALL = "*"
ROLLED_BACK = frozenset({"rolled_back", "lost_rollback"})
RESCHEDULED = frozenset({"moved", "now", "bulk_moved", "replaced"})
GIVEN_UP = {"cancelled": "cancelled", "bulk_cancelled": "cancelled", "dead": "dead"}
"""Fates of timers of which nothing comes, and what they count as."""
Counts = Counter[str]


@dataclass(slots=True)
class Expected:
    """Counts by producer group and topic, by topic, and by consumer group and topic;
    those that are 0 are missing."""

    transactions: dict[tuple[str, ...], Counts] = field(default_factory=lambda: {})
    on_time: dict[tuple[str, ...], Counts] = field(default_factory=lambda: {})
    end_to_end: dict[tuple[str, ...], Counts] = field(default_factory=lambda: {})
    later: Counts = field(default_factory=lambda: Counter())
    """Timers that are due later than all windows of a run, by topic."""
    punctual: Counts = field(default_factory=lambda: Counter())
    """Timers that have fired and not too early, by topic."""

    @property
    def pending_later(self) -> int:
        return self.later.total()


def expected_of(journal: Journal, faults: Faults | None = None) -> Expected:
    """All that a run over the whole log must find."""
    known = faults or Faults()
    found = Expected()
    _transactions(found, journal, known)
    _timers(found, journal, known)
    _messages(found, journal, known)
    return found


def _transactions(found: Expected, journal: Journal, faults: Faults) -> None:
    for key, fate in journal.transactions.items():
        messages = journal.topics[key]
        counts = _fate_counts(fate)
        if fate in CHECKED:
            counts += Counter(checked_back=1, check_backs=journal.checks[key])
        if key in faults.hit.get("contradicted", ()):
            counts += Counter(rolled_back=1, unbalanced=1)
            counts["difference"] = -1
        for topic in {topic for _, topic in messages} | {ALL}:
            place = found.transactions.setdefault(
                (journal.groups[key], topic), Counter()
            )
            own = [it for it in messages if topic in {ALL, it[1]}]
            place.update(counts)
            place["messages"] += len(own)
            if key in faults.hit.get("missing", ()):
                place["missing"] += len(own)
            if key in faults.hit.get("leaked", ()) and messages[0] in own:
                place["leaked"] += 1


def _fate_counts(fate: str) -> Counts:
    counts = Counter(half=1)
    if fate in COMMITTED:
        counts["committed"] = 1
    elif fate in ROLLED_BACK:
        counts["rolled_back"] = 1
    else:
        counts[fate] = 1
    if fate.startswith("lost_") or fate == "resumed":
        counts["second_phase_lost"] = 1
    if fate == "slow_commit":
        counts["slow_local"] = 1
    if fate == "forced":
        counts["forced"] = 1
    return counts


def _timers(found: Expected, journal: Journal, faults: Faults) -> None:
    for event_id, (topic, fate) in _all_timers(journal).items():
        if fate == "pending":
            found.later[topic] += 1
            continue
        counts = Counter(scheduled=1)
        if fate in GIVEN_UP:
            counts[GIVEN_UP[fate]] = 1
        elif _was_hit(event_id, faults, "lost", "hollow"):
            counts += Counter(lost=1, judged=1)
        else:
            counts += Counter(fired=1, judged=1)
        if fate in RESCHEDULED:
            counts["rescheduled"] = 1
        if _was_hit(event_id, faults, "early"):
            counts["early"] = 1
        elif counts["fired"]:
            found.punctual.update([topic, ALL])
        if _was_hit(event_id, faults, "doubled"):
            counts["duplicated"] = 1
        for place in ((topic,), (ALL,)):
            found.on_time.setdefault(place, Counter()).update(counts)


def _all_timers(journal: Journal) -> dict[str, tuple[str, str]]:
    """Also what recurred, and the messages that a commit has delayed."""
    timers = dict(journal.timers)
    for event_id, topic in journal.occurrences.items():
        timers[event_id] = topic, "fired"
    for key, fate in journal.transactions.items():
        if fate in COMMITTED:
            for event_id, topic in journal.topics[key]:
                if event_id in journal.delayed:
                    timers[event_id] = topic, "fired"
    return timers


def _messages(found: Expected, journal: Journal, faults: Faults) -> None:
    for event_id, topic in journal.messages.items():
        _published(found, topic, "stored")
        state = "consumed" if event_id in journal.consumed else "waiting"
        place = (journal.consumer_group, topic)
        counts = Counter({"published": 1, "stored": 1, state: 1})
        if event_id in journal.given_up:
            counts["dead_lettered"] = 1
        found.end_to_end.setdefault(place, Counter()).update(counts)
    for event_id, (topic, fate) in _all_timers(journal).items():
        if fate in GIVEN_UP:
            _published(found, topic, GIVEN_UP[fate])
        elif fate != "pending":
            is_gone = _was_hit(event_id, faults, "lost", "hollow")
            _published(found, topic, "lost" if is_gone else "stored")
            if _was_hit(event_id, faults, "doubled"):
                _count(found, topic, ["duplicated"])
    _released(found, journal, faults)


def _released(found: Expected, journal: Journal, faults: Faults) -> None:
    """Messages of transactions that are to be there at once."""
    for key, fate in journal.transactions.items():
        now = [it for it in journal.topics[key] if it[0] not in journal.delayed]
        if fate in COMMITTED:
            for _, topic in now:
                is_missing = key in faults.hit.get("missing", ())
                _published(found, topic, "lost" if is_missing else "stored")
        if key in faults.hit.get("leaked", ()):
            _published(found, now[0][1], "stored")


def _published(found: Expected, topic: str, state: str) -> None:
    _count(found, topic, ["published", state])


def _count(found: Expected, topic: str, names: Iterable[str]) -> None:
    for place in ((ALL, topic), (ALL, ALL)):
        found.end_to_end.setdefault(place, Counter()).update(names)


def _was_hit(event_id: str, faults: Faults, *names: str) -> bool:
    return any(event_id in faults.hit.get(name, ()) for name in names)
