"""`POST /v1/events:batch`: many events, of any topics, in one atomic frame.

With `atomic` one bad event refuses all; without it the good ones are stored, again
in one frame, and each of the others gets its own problem.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

import msgspec

from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.config import BodyLimits
from halfpast_api.delay.pending_quota import PendingQuotas
from halfpast_api.encoding import (
    NOTHING_WRONG,
    Encoded,
    Row,
    Seed,
    Wrong,
    encode_events,
)
from halfpast_api.event_body import BatchBody, BatchEventBody, LooseBatchBody
from halfpast_api.idempotency import REPLAYED, dedup_of, seed_of
from halfpast_api.problems import Problem, Refusal, refuse_field
from halfpast_api.publish import Source
from halfpast_api.reading import Format, Reader
from halfpast_api.refusals import problem_in_list, refuse_all
from halfpast_api.times import render_instant
from halfpast_api.topic_directory import Topic, TopicDirectory
from halfpast_core_store.broker import Append, Broker

_COUNT_BEFORE_DECODING: Final = 1024 * 1024  # bytes
_astuple = msgspec.structs.astuple


class BatchItemView(msgspec.Struct, omit_defaults=True, gc=False):
    """What became of one event."""

    index: int
    status: int
    id: str = ""
    state: str = ""
    deliver_at: str | None = None
    problem: Problem | None = None


class BatchView(msgspec.Struct):
    """One result per event, in their order."""

    results: list[BatchItemView]


class BatchHandlers:
    """The handler for batches."""

    def __init__(
        self,
        broker: Broker,
        directory: TopicDirectory,
        source: Source,
        limits: BodyLimits,
        quotas: PendingQuotas,
    ) -> None:
        self._quotas = quotas
        self._broker = broker
        self._directory = directory
        self._source = source
        self._limits = limits
        self._reader = Reader(BatchBody, limits.depth_max)
        self._loose_reader = Reader(
            LooseBatchBody, limits.depth_max, frozenset({"events"})
        )
        self._event_reader = Reader(BatchEventBody, limits.depth_max)

    async def publish(self, call: Call) -> Answer:
        """POST /v1/events:batch"""
        batch = self._read(call)
        seed = self._source.seed()
        dedup = dedup_of(call, "batch", seed)
        names = {event.topic for event in batch.events if event is not None}
        refused = call.refused_topics(names)
        topics, wrong = await self._directory.all_to_write(names - refused.keys())
        topics = {name: call.bounded(topic) for name, topic in topics.items()}
        batch.wrong = Wrong({**wrong, **refused}, batch.wrong.events)
        encoded = _encode(batch, topics, seed, call.form)
        is_limited = any(topic.max_pending for topic in topics.values())
        if is_limited or call.max_pending:
            of_events = [
                None if event is None else topics.get(event.topic)
                for event in batch.events
            ]
            await self._quotas.admit_all(encoded, of_events, call.max_pending)
        if batch.is_atomic and encoded.refusals:
            count = len(encoded.refusals)
            why = f"the batch is atomic and {count} of its events cannot be"
            raise refuse_all(encoded.refusals, "/events", why)
        extra: list[tuple[str, str]] = []
        if encoded.runs:
            durable = any(topic.is_durable for topic in topics.values())
            request = Append(encoded.runs, dedup=dedup, durable=durable)
            appended = await self._broker.append(request)
            if appended.replayed is not None:
                seed = seed_of(appended, seed)
                encoded = _encode(batch, topics, seed, call.form)
                extra.append(REPLAYED)
        return call.answer(200, BatchView(_results(encoded, seed)), extra)

    def _read(self, call: Call) -> "_Batch":
        """The events, those that cannot be read as what is wrong with them."""
        is_big = len(call.body) > _COUNT_BEFORE_DECODING
        if is_big and call.body.count(b"topic") > self._limits.batch_count_max:
            # Perhaps far too many: look before they all become objects.
            self._check_count(len(call.read(self._loose_reader).events))
        try:
            batch = call.read(self._reader)
        except Refusal as refusal:
            if not any(it.pointer.startswith("/events/") for it in refusal.errors):
                raise
            return self._read_one_by_one(call, refusal)
        self._check_count(len(batch.events))
        return _Batch(batch.events, batch.atomic is True)

    def _read_one_by_one(self, call: Call, first: Refusal) -> "_Batch":
        loose = call.read(self._loose_reader)
        self._check_count(len(loose.events))
        if loose.atomic:
            raise first
        events: list[BatchEventBody | None] = []
        wrong: dict[int, Exception] = {}
        for index, raw in enumerate(loose.events):
            try:
                events.append(self._event_reader.read(bytes(raw), call.form))
            except Refusal as refusal:
                events.append(None)
                wrong[index] = refusal
        return _Batch(events, False, Wrong({}, wrong))

    def _check_count(self, count: int) -> None:
        count_max = self._limits.batch_count_max
        if count > count_max:
            raise refuse_field(
                "too_many_events",
                "/events",
                f"these are {count} events, one batch takes {count_max}; send several",
            )


@dataclass(slots=True)
class _Batch:
    events: Sequence[BatchEventBody | None]
    is_atomic: bool
    wrong: Wrong = NOTHING_WRONG


def _encode(
    batch: _Batch, topics: Mapping[str, Topic], seed: Seed, form: Format
) -> Encoded:
    rows: Iterable[Row | None]
    if batch.wrong.events:
        rows = (None if event is None else _astuple(event) for event in batch.events)
    else:
        rows = map(_astuple, cast(Sequence[BatchEventBody], batch.events))
    return encode_events(rows, topics, seed, form, batch.wrong)


def _results(encoded: Encoded, seed: Seed) -> list[BatchItemView]:
    items = enumerate(zip(encoded.dues_ms, seed.id_texts(), strict=False))
    if encoded.refusals:
        return [
            BatchItemView(index, 201, text, "scheduled", render_instant(due_ms))
            if due_ms > 0
            else BatchItemView(index, 201, text, "stored")
            if due_ms == 0
            else _refused(index, encoded.refusals[index])
            for index, (due_ms, text) in items
        ]
    return [
        BatchItemView(index, 201, text, "scheduled", render_instant(due_ms))
        if due_ms
        else BatchItemView(index, 201, text, "stored")
        for index, (due_ms, text) in items
    ]


def _refused(index: int, error: Exception) -> BatchItemView:
    problem = problem_in_list(error)
    return BatchItemView(index, problem.status, problem=problem)
