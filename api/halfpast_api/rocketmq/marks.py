"""What of a RocketMQ message has no field in a record: properties of these names.

They are RocketMQ's own, so that they mean something to its users where they see them:
over HTTP, in the console, in SQL92 filters. Users may not set them.
"""

from typing import Final

MESSAGE_ID: Final = "UNIQ_KEY"
"""The id that the client made. A record's own id is an event id."""

KEYS: Final = "KEYS"
"""All keys, with spaces between, where they are not simply the record's key."""

MESSAGE_GROUP: Final = "__SHARDINGKEY"
"""The message group, which is the record's key too."""

TRANSACTION_ID: Final = "__transactionId__"
"""The transaction that brought the message."""

BORN_HOST: Final = "BORN_HOST"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"

SHOWN: Final = frozenset({MESSAGE_GROUP, TRANSACTION_ID})
"""Consumers see these among the properties too; clients' own tests look for them."""

OURS: Final = frozenset(
    {MESSAGE_ID, KEYS, MESSAGE_GROUP, TRANSACTION_ID, BORN_HOST, TRACE_CONTEXT}
)

RESERVED: Final = OURS | {
    *("TAGS", "DELAY", "WAIT", "RETRY_TOPIC", "REAL_TOPIC", "REAL_QID", "TRAN_MSG"),
    *("PGROUP", "MIN_OFFSET", "MAX_OFFSET", "BUYER_ID", "ORIGIN_MESSAGE_ID"),
    *("TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG", "RECONSUME_TIME", "MSG_REGION"),
    *("TRACE_ON", "MAX_RECONSUME_TIMES", "CONSUME_START_TIME", "INSTANCE_ID"),
    *("TRAN_PREPARED_QUEUE_OFFSET", "EXTEND_UNIQ_INFO", "CORRELATION_ID"),
    *("REPLY_TO_CLIENT", "TTL", "PUSH_REPLY_TIME", "CLUSTER", "MSG_TYPE", "POP_CK"),
    *("TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_OUT_MS"),
    *("CHECK_IMMUNITY_TIME_IN_SECONDS", "TRANSACTION_CHECK_TIMES"),
}
