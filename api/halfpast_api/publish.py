"""Publishing one event: `POST …/events`, or `PUT …/events/{key}` by one's own key."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from halfpast_api import headers
from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.delay.pending_quota import PendingQuotas
from halfpast_api.encoding import (
    Encoded,
    EventEncoder,
    Row,
    Seed,
    encode_events,
    row_of,
)
from halfpast_api.event_body import EventBody
from halfpast_api.event_id import id_text
from halfpast_api.idempotency import REPLAYED, dedup_of, seed_of
from halfpast_api.problems import refuse_field
from halfpast_api.reading import Format, Reader
from halfpast_api.times import NS_PER_MS, due_ms_of, render_instant
from halfpast_api.topic_directory import Topic, TopicDirectory
from halfpast_chronos.delay_server import DelayServer, Replace
from halfpast_core_store.broker import Append, Broker
from halfpast_core_store.record import RecordFlag


@dataclass(frozen=True, slots=True)
class Source:
    """Where new ids and the time come from: `new_id` makes UUIDv7s."""

    new_id: Callable[[], bytes]
    now_ns: Callable[[], int]

    def seed(self) -> Seed:
        """The seed of a request that is accepted now."""
        return Seed.fresh(self.new_id, self.now_ns())


class PublishedView(msgspec.Struct, kw_only=True):
    """The answer to a publish. Times are the server's, at acceptance."""

    id: str
    topic: str
    state: str
    deliver_at: str | None
    due_in_ms: int
    server_time: str
    version: int | msgspec.UnsetType = msgspec.UNSET


class PublishHandlers:
    """Handlers for single events."""

    def __init__(
        self,
        broker: Broker,
        delay: DelayServer,
        directory: TopicDirectory,
        source: Source,
        depth_max: int,
        quotas: PendingQuotas,
    ) -> None:
        self._broker = broker
        self._delay = delay
        self._quotas = quotas
        self._directory = directory
        self._source = source
        self._reader = Reader(EventBody, depth_max)

    async def publish(self, call: Call) -> Answer:
        """POST /v1/topics/{topic}/events"""
        (name,) = call.parameters
        row = row_of(call.read(self._reader), name)
        seed = self._source.seed()
        dedup = dedup_of(call, f"event\0{name}", seed)
        topic = call.bounded(await self._directory.to_write(name))
        encoded = _encode(row, topic, seed, call.form)
        if encoded.dues_ms[0]:
            await self._quotas.admit(topic, call.max_pending)
        request = Append(encoded.runs, dedup=dedup, durable=topic.is_durable)
        appended = await self._broker.append(request)
        extra: list[tuple[str, str]] = []
        if appended.replayed is not None:
            seed = seed_of(appended, seed)
            encoded = _encode(row, topic, seed, call.form)
            extra.append(REPLAYED)
        due_ms = encoded.dues_ms[0]
        view = _view(id_text(seed.base_id), name, due_ms, seed.accepted_ns)
        if due_ms:
            extra.append(("ETag", '"1"'))
        extra.append(("Location", f"/v1/events/{view.id}"))
        return call.answer(201, view, extra)

    async def put(self, call: Call) -> Answer:
        """PUT /v1/topics/{topic}/events/{key}"""
        name, key = call.parameters
        if not key:
            raise refuse_field("invalid_key", "/key", "the key in the path is empty")
        body = call.read(self._reader)
        if body.key is not None and body.key != key:
            raise refuse_field(
                "invalid_key",
                "/key",
                "it differs from the key in the path; leave it out",
            )
        body.key = key
        if body.deliver_at is None and body.delay is None and body.delay_ms is None:
            body.delay_ms = 0
        expected = headers.if_match(call.headers)
        seed = self._source.seed()
        topic = call.bounded(await self._directory.to_write(name))
        records: list[bytes] = []
        encoder = EventEncoder(topic, seed, call.form, records, int(RecordFlag.UPSERT))
        encoder.add(row_of(body, name), b"\0\0")
        await self._quotas.admit_to_space(call.max_pending)
        replaced = await self._delay.replace(
            Replace(
                record=records[0],
                version=expected,
                create_only=headers.creates_only(call.headers),
                pending_max=topic.max_pending,
            )
        )
        event = replaced.event
        view = _view(id_text(event.event_id), name, event.due_ms, seed.accepted_ns)
        view.version = event.version
        extra = [("ETag", f'"{event.version}"'), ("Location", f"/v1/events/{view.id}")]
        return call.answer(201 if replaced.created else 200, view, extra)


def _encode(row: Row, topic: Topic, seed: Seed, form: Format) -> Encoded:
    encoded = encode_events([row], {topic.name: topic}, seed, form)
    for refusal in encoded.refusals.values():
        raise refusal
    return encoded


def _view(event_id: str, topic: str, due_ms: int, accepted_ns: int) -> PublishedView:
    return PublishedView(
        id=event_id,
        topic=topic,
        state="scheduled" if due_ms else "stored",
        deliver_at=render_instant(due_ms) if due_ms else None,
        due_in_ms=max(0, due_ms - due_ms_of(accepted_ns)) if due_ms else 0,
        server_time=render_instant(accepted_ns // NS_PER_MS),
    )
