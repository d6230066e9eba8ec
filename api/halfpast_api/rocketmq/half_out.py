"""A transactional message becomes a transaction of one message."""

from halfpast_api.access.space import Space
from halfpast_api.config import TransactionLimits
from halfpast_api.event_id import id_text
from halfpast_api.metadata.settings import CHECK_AFTER_MS_MAX
from halfpast_api.rocketmq import marks
from halfpast_api.rocketmq.message_in import Incoming
from halfpast_api.times import NS_PER_MS
from halfpast_api.transactions.draft import check_size, stored_group
from halfpast_core_store.broker import Run
from halfpast_core_store.record import RecordKind, encode_record
from halfpast_txn.half import begin_run, message_id
from halfpast_txn.policy import CheckPolicy


def half_runs(
    draft: Incoming,
    transaction_id: bytes,
    accepted_ns: int,
    space: Space,
    limits: TransactionLimits,
) -> Run:
    """The records that begin it. Raises Refusal.

    The producer group is the topic (see `orphan_checks`), the reference the id that the
    client knows the message by. A message with a delivery time is due at that time, or
    with the commit if that comes later; RocketMQ would forget the time.
    """
    topic = draft.topic
    born_ms = accepted_ns // NS_PER_MS
    draft.properties[marks.TRANSACTION_ID] = id_text(transaction_id)
    half = encode_record(
        RecordKind.HALF,
        topic_id=topic.id,
        queue_id=draft.queue(topic.next_queue()),
        event_id=message_id(transaction_id, 0),
        born_ms=born_ms,
        due_ms=draft.due_ms,
        key=draft.key,
        tag=draft.tag,
        properties=draft.packed_properties(),
        body=draft.body,
        flags=draft.flags,
    )
    check_size([half], limits)
    return begin_run(
        transaction_id,
        stored_group(topic.name, space.names),
        _policy(draft, space),
        born_ms,
        [half],
        draft.message_id,
    )


def _policy(draft: Incoming, space: Space) -> CheckPolicy:
    """What the message says comes first, then what the settings of the group say."""
    of_group = space.settings.producer_group_settings(draft.topic.name)
    after_ms = draft.check_after_ms
    if after_ms is None:
        after_ms = of_group.check_after_ms
    return CheckPolicy(
        min(after_ms, CHECK_AFTER_MS_MAX),
        of_group.check_interval_ms,
        of_group.check_max,
    )
