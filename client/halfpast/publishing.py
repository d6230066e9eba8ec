"""The client's first part: making events."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import uuid4

from halfpast.answer_body import BatchBody, PublishedBody
from halfpast.errors import ApiProblem, UnexpectedAnswer
from halfpast.gather import Gatherer, GatherLimits
from halfpast.model import NewEvent, Published
from halfpast.request_body import MSGPACK, json_event, packed_batch, packed_event
from halfpast.server_calls import ServerCalls, escaped, if_match
from halfpast.transport import Answer, Repeat, Transport


class Publishing(ServerCalls):
    """Publish, schedule, put, batch. With `gather` publishes travel together."""

    def __init__(self, http: Transport, gather: GatherLimits | None) -> None:
        super().__init__(http)
        self._gatherer: Gatherer[tuple[str, bytes], Published] | None = None
        if gather is not None:
            self._gatherer = Gatherer(self._send_gathered, gather)

    async def publish(
        self,
        topic: str,
        data: object,
        *,
        key: str | None = None,
        tag: str | None = None,
        properties: Mapping[str, str] | None = None,
        deliver_at: datetime | None = None,
        delay: timedelta | None = None,
        idempotency_key: str | None = None,
    ) -> Published:
        """Store an event; it is delivered now, at `deliver_at`, or after `delay`.

        `data` is bytes, or anything that becomes JSON. `deliver_at` needs a time
        zone; a past one means now. A delay counts from the server's clock, and is
        rounded up to whole milliseconds. Repeating a call with the same
        `idempotency_key` gives the first answer again and stores nothing.
        """
        event = NewEvent(
            topic=topic,
            data=data,
            key=key,
            tag=tag,
            properties=properties,
            deliver_at=deliver_at,
            delay=delay,
        )

        async def send(event: NewEvent) -> Published:
            if self._gatherer is not None and idempotency_key is None:
                packed = packed_event(event)
                return await self._gatherer.add((topic, packed), len(packed))
            return await self._publish(event, idempotency_key or _new_key())

        traces = self._http.traces
        return await (send(event) if traces is None else traces.publish(event, send))

    async def schedule(
        self,
        topic: str,
        data: object,
        *,
        deliver_at: datetime | None = None,
        delay: timedelta | None = None,
        key: str | None = None,
        tag: str | None = None,
        properties: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> Published:
        """`publish`, but ValueError if no time is given."""
        if deliver_at is None and delay is None:
            raise ValueError("schedule needs deliver_at or delay")
        return await self.publish(
            topic,
            data,
            key=key,
            tag=tag,
            properties=properties,
            deliver_at=deliver_at,
            delay=delay,
            idempotency_key=idempotency_key,
        )

    async def put(
        self,
        topic: str,
        key: str,
        data: object,
        *,
        tag: str | None = None,
        properties: Mapping[str, str] | None = None,
        deliver_at: datetime | None = None,
        delay: timedelta | None = None,
        version: int | None = None,
        create_only: bool = False,
    ) -> Published:
        """Create the event that your own `key` names, or replace it while it waits.

        Debounce: put again and again, only the last one is delivered. With
        `version` only if that is the present one (StaleVersion, or Conflict if
        it has been delivered); with `create_only` only if there is none.
        """
        event = NewEvent(
            topic=topic,
            data=data,
            tag=tag,
            properties=properties,
            deliver_at=deliver_at,
            delay=delay,
        )
        headers = if_match(version)
        if create_only:
            headers["If-None-Match"] = "*"

        async def send(event: NewEvent) -> Published:
            answer = await self._send(
                "PUT",
                f"/v1/topics/{escaped(topic)}/events/{escaped(key)}",
                # Twice the same content is the same content, unless a condition
                # holds only for the first.
                repeat=Repeat.MAY_CONFLICT if headers else Repeat.SAME_ANSWER,
                body=json_event(event),
                headers=headers,
            )
            return _published(answer)

        traces = self._http.traces
        return await (send(event) if traces is None else traces.publish(event, send))

    async def batch(
        self,
        events: Iterable[NewEvent],
        *,
        atomic: bool = False,
        idempotency_key: str | None = None,
    ) -> list[Published | ApiProblem]:
        """Store many events with one request; one result per event, in order.

        An event that the server refuses is an ApiProblem in the list; the others
        are stored. With `atomic` all are stored or the whole call fails.
        """

        async def send(events: Iterable[NewEvent]) -> list[Published | ApiProblem]:
            pairs = [(event.topic, packed_event(event)) for event in events]
            if not pairs:
                return []
            topics = [topic for topic, _ in pairs]
            body = packed_batch([packed for _, packed in pairs], atomic=atomic)
            return await self._send_batch(topics, body, idempotency_key or _new_key())

        if self._http.traces is None:
            return await send(events)
        return await self._http.traces.publish_all(list(events), send)

    async def _publish(self, event: NewEvent, idempotency_key: str) -> Published:
        answer = await self._send(
            "POST",
            f"/v1/topics/{escaped(event.topic)}/events",
            repeat=Repeat.SAME_ANSWER,
            body=json_event(event),
            headers={"Idempotency-Key": idempotency_key},
        )
        return _published(answer)

    async def _send_gathered(
        self, batch: Sequence[tuple[str, bytes]]
    ) -> list[Published | ApiProblem]:
        topics = [topic for topic, _ in batch]
        body = packed_batch([packed for _, packed in batch], atomic=False)
        return await self._send_batch(topics, body, _new_key())

    async def _send_batch(
        self, topics: Sequence[str], body: bytes, idempotency_key: str
    ) -> list[Published | ApiProblem]:
        answer = await self._send(
            "POST",
            "/v1/events:batch",
            repeat=Repeat.SAME_ANSWER,
            body=body,
            content_type=MSGPACK,
            headers={"Idempotency-Key": idempotency_key},
        )
        items = answer.read(BatchBody).results
        if len(items) != len(topics):
            why = f"{len(items)} results for {len(topics)} events"
            raise UnexpectedAnswer(str(answer.call), answer.status, why)
        replayed = _is_replay(answer)
        return [
            item.outcome(topic, replayed=replayed)
            for item, topic in zip(items, topics, strict=True)
        ]


def _published(answer: Answer) -> Published:
    return answer.read(PublishedBody).published(
        created=answer.status == 201, replayed=_is_replay(answer)
    )


def _is_replay(answer: Answer) -> bool:
    return answer.headers.get("Idempotency-Replayed", "").lower() == "true"


def _new_key() -> str:
    return uuid4().hex
