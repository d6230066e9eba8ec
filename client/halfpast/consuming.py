"""The client's third part: taking messages and saying what became of them."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Literal

from halfpast.answer_body import PoppedBody, PulledBody, SettledBody, TopicBody
from halfpast.model import Message, Pulled, Settled, Topic
from halfpast.request_body import json_body, milliseconds
from halfpast.server_calls import NOTHING, ServerCalls, escaped
from halfpast.transport import Repeat

FilterType = Literal["tag", "sql92"]

_MINUTE = timedelta(minutes=1)


class Consuming(ServerCalls):
    """Pop, ack, nack, extend; look at a topic and pull from it."""

    async def pop(
        self,
        group: str,
        topic: str,
        *,
        max_messages: int = 32,
        wait: timedelta = NOTHING,
        invisible: timedelta = _MINUTE,
        filter: str | None = None,
        filter_type: FilterType = "tag",
    ) -> list[Message]:
        """Take messages for a group and hide them from it for `invisible`.

        Waits up to `wait` for the first one. Whatever is not acknowledged in that
        time is offered again. `filter` names tags: "paid || refunded"; or with
        `filter_type` "sql92" says what must be true of the properties:
        "region = 'eu' AND amount > 100". InvalidRequest with the code
        `invalid_filter` if it cannot be read.
        """
        answer = await self._send(
            "POST",
            f"/v1/groups/{escaped(group)}:pop",
            # A lost answer hides its messages for a while, then they come again.
            repeat=Repeat.READS,
            body=json_body(
                topic=topic,
                max=max_messages,
                wait_ms=milliseconds(wait),
                invisible_ms=milliseconds(invisible),
                filter=filter,
                filter_type=None if filter_type == "tag" else filter_type,
            ),
            wait=wait,
        )
        return [body.message() for body in answer.read(PoppedBody).messages]

    async def ack(self, group: str, receipts: Iterable[Message | str]) -> list[Settled]:
        """These are done. One result per receipt, in order."""
        return await self._settle(group, "ack", receipts)

    async def nack(
        self,
        group: str,
        receipts: Iterable[Message | str],
        *,
        delay: timedelta | None = None,
        reason: str | None = None,
    ) -> list[Settled]:
        """These failed: offer them again after `delay`, or as the group backs off. A
        `reason` stays with those that become dead letters."""
        delay_ms = None if delay is None else milliseconds(delay)
        return await self._settle(
            group, "nack", receipts, delay_ms=delay_ms, reason=reason
        )

    async def extend(
        self, group: str, receipts: Iterable[Message | str], invisible: timedelta
    ) -> list[Settled]:
        """Keep these hidden for `invisible` from now. Each gets a new receipt."""
        return await self._settle(
            group, "extend", receipts, invisible_ms=milliseconds(invisible)
        )

    async def topic(self, name: str) -> Topic:
        """A topic, with what its queues hold. Raises NotFound."""
        answer = await self._read(f"/v1/topics/{escaped(name)}")
        return answer.read(TopicBody).topic()

    async def pull(
        self,
        topic: str,
        queue: int,
        offset: int,
        *,
        max_messages: int = 32,
        wait: timedelta = NOTHING,
        filter: str | None = None,
        filter_type: FilterType = "tag",
    ) -> Pulled:
        """Read a queue from `offset` on, disturbing no group.

        At the end it waits up to `wait`. InvalidRequest with the code
        `offset_out_of_range` if the queue does not hold that offset. With a `filter`
        (see `pop`) the rest is left out, and `next_offset` may be behind it.
        """
        wanted = {} if filter is None else {"filter": filter}
        if filter_type != "tag":
            wanted["filter_type"] = filter_type
        answer = await self._read(
            f"/v1/topics/{escaped(topic)}/queues/{queue}/messages",
            {
                "offset": str(offset),
                "max": str(max_messages),
                "wait_ms": str(milliseconds(wait)),
                **wanted,
            },
            wait,
        )
        return answer.read(PulledBody).pulled()

    async def _settle(
        self,
        group: str,
        verb: str,
        receipts: Iterable[Message | str],
        **fields: int | str | None,
    ) -> list[Settled]:
        names = [r if isinstance(r, str) else r.receipt for r in receipts]
        if not names:
            return []
        answer = await self._send(
            "POST",
            f"/v1/groups/{escaped(group)}:{verb}",
            repeat=Repeat.SAME_ANSWER,
            body=json_body(receipts=names, **fields),
        )
        return [item.settled() for item in answer.read(SettledBody).results]
