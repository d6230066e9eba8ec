"""`POST /v1/transactions:batch`: several transactions begin in one append.

Each stands for itself: a bad one gets its own problem and does not refuse the
others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from halfpast_api.access.namespaced_names import ALL_NAMES, Names
from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.config import BodyLimits, TransactionLimits
from halfpast_api.encoding import Seed
from halfpast_api.event_id import id_text
from halfpast_api.idempotency import REPLAYED, dedup_of, seed_of
from halfpast_api.problems import Problem, Refusal, refuse_field
from halfpast_api.publish import Source
from halfpast_api.reading import Format, Reader
from halfpast_api.refusals import problem_in_list
from halfpast_api.topic_directory import Topic, TopicDirectory
from halfpast_api.transactions.bodies import (
    BeginBatchBody,
    BeginBody,
    LooseBeginBatchBody,
)
from halfpast_api.transactions.draft import (
    ProducerGroupSource,
    check_begin,
    encode_begin,
    stored_group,
)
from halfpast_api.transactions.message_count import MessageCounter
from halfpast_api.transactions.transaction_id import transaction_ids
from halfpast_core_store.broker import Append, Broker, Run
from halfpast_txn.policy import CheckPolicy
from halfpast_txn.words import PREPARED


class BegunItemView(msgspec.Struct, omit_defaults=True, gc=False):
    """What became of one transaction. Its n-th message (0, 1, …) has the id that
    lies n + 1 behind the transaction's."""

    index: int
    status: int
    id: str = ""
    state: str = ""
    problem: Problem | None = None


class BegunBatchView(msgspec.Struct):
    """One result per transaction, in their order."""

    results: list[BegunItemView]


@dataclass(slots=True)
class _Batch:
    """Transactions that passed their checks, by index; what is wrong with others."""

    count: int = 0
    good: dict[int, tuple[BeginBody, CheckPolicy]] = field(
        default_factory=dict[int, tuple[BeginBody, CheckPolicy]]
    )
    wrong: dict[int, Exception] = field(default_factory=dict[int, Exception])


@dataclass(slots=True)
class _Encoded:
    """Records by queue; the id of each transaction, None for those refused."""

    runs: dict[int, Run] = field(default_factory=dict[int, Run])
    ids: list[bytes | None] = field(default_factory=list[bytes | None])
    refusals: dict[int, Exception] = field(default_factory=dict[int, Exception])


class BeginBatchHandlers:
    """The handler for many transactions that begin."""

    def __init__(
        self,
        broker: Broker,
        directory: TopicDirectory,
        groups: ProducerGroupSource,
        source: Source,
        limits: TransactionLimits,
        bodies: BodyLimits,
        names: Names = ALL_NAMES,
    ) -> None:
        self._names = names
        self._broker = broker
        self._directory = directory
        self._groups = groups
        self._source = source
        self._limits = limits
        self._reader = Reader(BeginBatchBody, bodies.depth_max)
        self._loose_reader = Reader(
            LooseBeginBatchBody, bodies.depth_max, frozenset({"transactions"})
        )
        self._one_reader = Reader(BeginBody, bodies.depth_max)
        self._counter = MessageCounter(limits.batch_message_count_max)

    async def begin(self, call: Call) -> Answer:
        """POST /v1/transactions:batch"""
        self._check_messages(self._counter.suspicion(call))
        batch = self._read(call)
        seed = self._source.seed()
        dedup = dedup_of(call, "transactions", seed)
        names = {
            message.topic
            for body, _ in batch.good.values()
            for message in body.messages
        }
        refused = call.refused_topics(names)
        topics, wrong = await self._directory.all_to_write(names - refused.keys())
        topics = {name: call.bounded(topic) for name, topic in topics.items()}
        wrong = {**wrong, **refused}
        encoded = self._encode(batch, topics, wrong, seed, call.form)
        extra: list[tuple[str, str]] = []
        if encoded.runs:
            request = Append(list(encoded.runs.values()), dedup=dedup)
            appended = await self._broker.append(request)
            if appended.replayed is not None:
                seed = seed_of(appended, seed)
                encoded = self._encode(batch, topics, wrong, seed, call.form)
                extra.append(REPLAYED)
        return call.answer(200, BegunBatchView(_results(encoded)), extra)

    def _encode(
        self,
        batch: _Batch,
        topics: Mapping[str, Topic],
        wrong_topics: Mapping[str, Exception],
        seed: Seed,
        form: Format,
    ) -> _Encoded:
        """Each transaction has the id of its place, whatever becomes of the others."""
        encoded = _Encoded()
        runs, ids = encoded.runs, encoded.ids
        for index, transaction_id in zip(
            range(batch.count), transaction_ids(seed.base_id), strict=False
        ):
            try:
                if (good := batch.good.get(index)) is None:
                    raise batch.wrong[index]
                run = encode_begin(
                    *good,
                    topics,
                    wrong_topics,
                    Seed(transaction_id, seed.accepted_ns),
                    form,
                    self._limits,
                    stored_group(good[0].producer_group, self._names),
                )
            except Exception as error:
                encoded.refusals[index] = error
                ids.append(None)
                continue
            ids.append(transaction_id)
            if (same := runs.get(run.queue_id)) is None:
                runs[run.queue_id] = run
            else:
                same.records += run.records
        return encoded

    def _read(self, call: Call) -> _Batch:
        batch = _Batch()
        bodies = self._bodies(call, batch.wrong)
        batch.count = len(bodies)
        self._check_messages(sum(len(it.messages) for it in bodies if it is not None))
        for index, body in enumerate(bodies):
            if body is None:
                continue
            try:
                policy = check_begin(body, self._groups, self._limits)
            except Refusal as refusal:
                batch.wrong[index] = refusal
            else:
                batch.good[index] = (body, policy)
        return batch

    def _bodies(
        self, call: Call, wrong: dict[int, Exception]
    ) -> Sequence[BeginBody | None]:
        """The transactions; those that cannot be read go to `wrong`."""
        try:
            batch = call.read(self._reader)
        except Refusal as refusal:
            inside = (it.pointer.startswith("/transactions/") for it in refusal.errors)
            if not any(inside):
                raise
        else:
            self._check_transactions(len(batch.transactions))
            return batch.transactions
        loose = call.read(self._loose_reader)
        self._check_transactions(len(loose.transactions))
        bodies: list[BeginBody | None] = []
        for index, raw in enumerate(loose.transactions):
            try:
                bodies.append(self._one_reader.read(bytes(raw), call.form))
            except Refusal as refusal:
                bodies.append(None)
                wrong[index] = refusal
        return bodies

    def _check_transactions(self, count: int) -> None:
        count_max = self._limits.count_max
        if count > count_max:
            raise refuse_field(
                "too_many_transactions",
                "/transactions",
                f"these are {count} transactions, one request takes {count_max}; send "
                "several",
            )

    def _check_messages(self, count: int) -> None:
        count_max = self._limits.batch_message_count_max
        if count > count_max:
            raise refuse_field(
                "too_many_messages",
                "/transactions",
                f"these transactions have {count} messages together, one request takes "
                f"{count_max}; send several",
            )


def _results(encoded: _Encoded) -> list[BegunItemView]:
    return [
        BegunItemView(index, 201, id_text(transaction_id), PREPARED)
        if transaction_id is not None
        else _refused(index, encoded.refusals[index])
        for index, transaction_id in enumerate(encoded.ids)
    ]


def _refused(index: int, error: Exception) -> BegunItemView:
    problem = problem_in_list(error)
    return BegunItemView(index, problem.status, problem=problem)
