"""Records of transactions and delayed messages, many at once, and what they amount to.

What services write, frame by frame: of each transaction its beginning with one message,
perhaps a check-back, and its outcome; of each delayed message that it is scheduled, and
that it fires or is cancelled. `books` counts what an audit must find.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from halfpast_chronos.keys import FIRED_ENTRY
from halfpast_core_store.broker import Run
from halfpast_core_store.record import RecordFlag, RecordKind, encode_record
from halfpast_core_store.topics import (
    SYS_FIRED,
    SYS_SCHEDULE,
    SYS_TRANS_HALF,
    SYS_TRANS_OP,
)
from halfpast_loadtest.audit_records import (
    block_ids,
    cut,
    groups,
    heads_of,
    runs_by_queue,
    stamped,
    transaction_ids,
    with_kind,
)
from halfpast_spark.frame_records import Bytes, Mask, Numbers
from halfpast_txn.half import COMMITTED, QUEUE_COUNT, ROLLED_BACK

TRANSACTION_RECORDS = 4  # of one, about
TIMER_RECORDS = 2
CHECK_AFTER_MS = 6_000
LATE_MAX_MS = 20  # less than a frame
FIRED_COUNT = 2_000  # timers that one FIRED record names

Later = Callable[[int], list[Run]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLoadConfig:
    """Half of the records are of transactions, half of delayed messages; shares are of
    all transactions, or of all delayed messages."""

    topic_ids: Sequence[int]
    rate_per_s: int = 5_000
    frame_ms: int = 100
    groups: int = 4
    queues: int = 4
    body_bytes: int = 200
    delay_max_ms: int = 60_000
    rolled_back: float = 0.02
    checked_back: float = 0.03
    unfinished: float = 0.001
    cancelled: float = 0.02
    seed: int = 1


class AuditLoad:
    """Makes what is to be written next, and remembers what must follow later."""

    def __init__(self, config: AuditLoadConfig) -> None:
        self._config = config
        self._random = np.random.default_rng(config.seed)
        self._body = random.Random(config.seed).randbytes(config.body_bytes)
        self._later: defaultdict[int, list[Later]] = defaultdict(list)
        self._done = 0
        self._begun = 0
        self.books: Counter[str] = Counter()

    def runs(self, now_ms: int) -> list[Run]:
        """All of one frame that is stored now, or a little later."""
        config = self._config
        slot = now_ms // config.frame_ms
        found: list[Run] = []
        for due in sorted(it for it in self._later if it < slot):
            for follow in self._later.pop(due):
                found += follow(now_ms)
        each = config.rate_per_s * config.frame_ms / 1000 / 2
        found += self._begin(max(1, round(each / TRANSACTION_RECORDS)), now_ms)
        found += self._schedule(max(1, round(each / TIMER_RECORDS)), now_ms)
        return joined(found)

    # --- transactions ---------------------------------------------------------------

    def _begin(self, count: int, now_ms: int) -> list[Run]:
        config = self._config
        self._begun += 1
        group = b"bench-group-%d" % (self._begun % config.groups)
        ids = transaction_ids(count, now_ms)
        heads = stamped(
            encode_record(RecordKind.TRANSACTION, version=1, key=group),
            ids,
            now_ms,
            due_ms=now_ms + CHECK_AFTER_MS,
        )
        half_ids = ids.copy()
        half_ids[:, 15] = 1
        halves = self._messages(RecordKind.HALF, half_ids, now_ms, 0)
        self._count("half", count)
        self.books["records"] += 2 * count
        fate = self._random.random(count)
        is_checked = fate < config.checked_back
        is_left = fate > 1 - config.unfinished
        soon = now_ms + config.frame_ms
        self._end_later(soon, group, ids, halves, ~is_checked & ~is_left, check=0)
        self._at(now_ms + CHECK_AFTER_MS, self._checked(group, ids, halves, is_checked))
        queues = ids[:, 13] % QUEUE_COUNT
        return [
            Run(SYS_TRANS_HALF, int(queue), paired(heads, halves, queues == queue))
            for queue in np.unique(queues)
        ]

    def _end_later(
        self,
        at_ms: int,
        group: bytes,
        ids: Bytes,
        halves: Bytes,
        which: Mask,
        check: int,
    ) -> None:
        is_back = self._random.random(len(ids)) < self._config.rolled_back
        for outcome, chosen in (
            (COMMITTED, which & ~is_back),
            (ROLLED_BACK, which & is_back),
        ):
            if chosen.any():
                self._at(
                    at_ms,
                    self._ended(group, ids[chosen], halves[chosen], outcome, check),
                )

    def _checked(self, group: bytes, ids: Bytes, halves: Bytes, which: Mask) -> Later:
        def follow(now_ms: int) -> list[Run]:
            if not which.any():
                return []
            record = encode_record(RecordKind.CHECK, attempt=1, key=group)
            self._count("checked_back", int(which.sum()))
            self.books["records"] += int(which.sum())
            soon = now_ms + self._config.frame_ms
            self._end_later(soon, group, ids, halves, which, check=1)
            due_ms = now_ms + 5 * CHECK_AFTER_MS
            return ops(stamped(record, ids[which], now_ms, due_ms=due_ms))

        return follow

    def _ended(
        self, group: bytes, ids: Bytes, halves: Bytes, outcome: int, check: int
    ) -> Later:
        def follow(now_ms: int) -> list[Run]:
            record = encode_record(
                RecordKind.OP,
                version=outcome,
                attempt=check,
                key=group,
                flags=RecordFlag.FROM_CHECK if check else 0,
            )
            is_commit = outcome == COMMITTED
            self._count("committed" if is_commit else "rolled_back", len(ids))
            self._count("second_phase_lost", len(ids) if check else 0)
            self.books["records"] += len(ids) * (1 + is_commit)
            found = ops(stamped(record, ids, now_ms))
            if is_commit:
                found += runs_by_queue(with_kind(halves, RecordKind.NORMAL))
            return found

        return follow

    # --- delayed messages -----------------------------------------------------------

    def _schedule(self, count: int, now_ms: int) -> list[Run]:
        config = self._config
        ids = block_ids(count, now_ms)
        due_ms = now_ms + self._random.integers(
            2 * config.frame_ms, config.delay_max_ms, count
        )
        # A little before a frame, so that few are later than they may be.
        due_ms += config.frame_ms - due_ms % config.frame_ms
        due_ms -= self._random.integers(1, LATE_MAX_MS, count)
        rows = self._messages(RecordKind.SCHEDULE, ids, now_ms, due_ms)
        is_cancelled = self._random.random(count) < config.cancelled
        self._at(now_ms + config.frame_ms, self._cancelled(rows[is_cancelled]))
        for slot, some in groups(
            rows[~is_cancelled], due_ms[~is_cancelled] // config.frame_ms
        ):
            self._later[slot].append(self._fired(some))
        self._count("scheduled", count)
        self.books["records"] += count
        return [Run(SYS_SCHEDULE, 0, cut(rows))]

    def _cancelled(self, rows: Bytes) -> Later:
        def follow(now_ms: int) -> list[Run]:
            if not len(rows):
                return []
            heads = heads_of(rows)
            self._count("cancelled", len(rows))
            self.books["records"] += len(rows)
            record = encode_record(RecordKind.CANCEL)
            told = stamped(record, heads["id"], now_ms, topic=heads["topic"])
            return [Run(SYS_SCHEDULE, 0, cut(told))]

        return follow

    def _fired(self, rows: Bytes) -> Later:
        def follow(now_ms: int) -> list[Run]:
            heads = heads_of(rows)
            due_ms, ids = heads["due_ms"].tolist(), heads["id"]
            entries = [
                FIRED_ENTRY.pack(b"T", due, one.tobytes())
                for due, one in zip(due_ms, ids, strict=True)
            ]
            bodies = [
                b"".join(entries[at : at + FIRED_COUNT])
                for at in range(0, len(entries), FIRED_COUNT)
            ]
            self._count("fired", len(rows))
            self.books["records"] += len(rows) + len(bodies)
            told = [encode_record(RecordKind.FIRED, body=body) for body in bodies]
            messages = runs_by_queue(with_kind(rows, RecordKind.NORMAL))
            return [*messages, Run(SYS_FIRED, 0, told)]

        return follow

    # --- both -----------------------------------------------------------------------

    def _messages(
        self, kind: int, ids: Bytes, now_ms: int, due_ms: int | Numbers
    ) -> Bytes:
        chance = self._random
        topics = np.array(self._config.topic_ids)[
            chance.integers(0, len(self._config.topic_ids), len(ids))
        ]
        return stamped(
            encode_record(kind, body=self._body),
            ids,
            now_ms,
            due_ms=due_ms,
            topic=topics,
            queue=chance.integers(0, self._config.queues, len(ids)),
        )

    def _at(self, at_ms: int, follow: Later) -> None:
        self._later[at_ms // self._config.frame_ms].append(follow)

    def _count(self, name: str, count: int) -> None:
        self.books[name] += count


def ops(rows: Bytes) -> list[Run]:
    """Records about transactions, each for the queue of its transaction."""
    queues = rows[:, 16 + 13] % QUEUE_COUNT
    return [
        Run(SYS_TRANS_OP, int(queue), cut(rows[queues == queue]))
        for queue in np.unique(queues)
    ]


def paired(heads: Bytes, halves: Bytes, which: Mask) -> list[bytes]:
    """The beginning of each transaction, and its message behind it."""
    pairs = zip(cut(heads[which]), cut(halves[which]), strict=True)
    return [record for pair in pairs for record in pair]


def joined(runs: Sequence[Run]) -> list[Run]:
    """One run for each queue."""
    queues: dict[tuple[int, int], list[bytes]] = {}
    for run in runs:
        queues.setdefault((run.topic_id, run.queue_id), []).extend(run.records)
    return [Run(topic, queue, records) for (topic, queue), records in queues.items()]
