"""Check-backs as their takers see them: built when they are taken."""

from halfpast_core_store.broker import Broker, TopicNames
from halfpast_core_store.record import RecordFlag, decode_record

from .check_desk import Question
from .core import TransactionCore
from .transactions import Check, CheckMessage, MessageHead

MESSAGES_MAX = 20
AFTER_COMMIT = RecordFlag.AFTER_COMMIT


class Questions:
    """Turns questions into what a producer needs to answer them."""

    def __init__(self, core: TransactionCore, broker: Broker) -> None:
        self._core = core
        self._broker = broker
        self._topics: dict[int, str] = {}

    async def build(self, asked: list[Question]) -> list[Check]:
        """Those that still want an answer. Raises what the broker raises."""
        found: list[tuple[Check, list[MessageHead]]] = []
        for transaction_id, number in asked:
            status = self._core.still_asked(transaction_id, number)
            if status is None:
                continue
            count = min(status.message_count, MESSAGES_MAX)
            heads = [*map(head_of, self._core.halves(transaction_id, count))]
            check = Check(
                transaction_id,
                status.group,
                number,
                status.begun_ms,
                status.reference,
                status.message_count,
                [],
            )
            found.append((check, heads))
        await self._learn({head.topic_id for _, heads in found for head in heads})
        for check, heads in found:
            check.messages = [self._message(head) for head in heads]
        return [check for check, _ in found]

    async def _learn(self, topic_ids: set[int]) -> None:
        unknown = sorted(topic_ids - self._topics.keys())
        if not unknown:
            return
        resolved = await self._broker.topics_by_id(TopicNames(unknown))
        for topic in resolved.topics:
            if topic is not None:
                self._topics[topic.id] = topic.name

    def _message(self, head: MessageHead) -> CheckMessage:
        return CheckMessage(
            head.event_id,
            self._topics.get(head.topic_id, ""),
            head.key.decode(errors="replace"),
            head.tag.decode(errors="replace"),
        )


def head_of(half: bytes) -> MessageHead:
    """A HALF record without its body."""
    record = decode_record(half)
    delayed = record.flags & AFTER_COMMIT
    return MessageHead(
        record.event_id,
        record.topic_id,
        record.key,
        record.tag,
        len(record.body),
        due_ms=0 if delayed else record.due_ms,
        delay_ms=record.due_ms if delayed else 0,
    )
