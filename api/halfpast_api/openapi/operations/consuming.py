"""Messages go out."""

from halfpast_api.consume import (
    AckBody,
    ExtendBody,
    NackBody,
    PopBody,
    SettledView,
)
from halfpast_api.message_view import MessagesView, PulledView
from halfpast_api.openapi import codes, parameters, samples
from halfpast_api.openapi.operation import Example, Operation, Reply, Tag
from halfpast_api.wanted_messages import FILTER_TYPES

TAG = Tag(
    "Consuming",
    "A consumer group takes messages and settles each: `ack` when it is done, `nack` "
    "when it failed, `extend` when it takes longer. What is not settled in time is "
    "offered again, and after too many attempts goes to `%DLQ%` and the group's name.",
)
_GROUP = "/v1/groups/{group}"
_SETTLED = Reply("One result per receipt.", SettledView)
_SETTLE = (*codes.BODY, *codes.WRITES, *codes.GROUP)

OPERATIONS = (
    Operation(
        method="POST",
        template=_GROUP + ":pop",
        name="popMessages",
        tag=TAG.name,
        summary="Take messages for a consumer group",
        text="Each message is hidden from the group for `invisible_ms`, and comes with "
        "a receipt. With `wait_ms` the answer waits for the first message. In an "
        "ordered group a message comes only when all earlier ones of its key and queue "
        "are done.",
        parameters=(parameters.GROUP,),
        body=PopBody,
        replies={200: Reply("Messages, perhaps none.", MessagesView)},
        problems=(
            *codes.BODY,
            *codes.WRITES,
            *codes.TOPIC,
            *codes.GROUP,
            "invalid_filter",
        ),
        examples=(
            Example(
                text="Up to ten, waiting half a second",
                body={"topic": "reminders", "max": 10, "wait_ms": 500},
            ),
            Example(
                text="Only some tags",
                body={"topic": "reminders", "filter": "paid || refunded"},
            ),
            Example(
                text="By their properties",
                body={
                    "topic": "reminders",
                    "filter": "region = 'eu' AND (amount > 100 OR TAGS = 'vip')",
                    "filter_type": "sql92",
                },
            ),
        ),
    ),
    Operation(
        method="POST",
        template=_GROUP + ":ack",
        name="ackMessages",
        tag=TAG.name,
        summary="Say that messages are done",
        parameters=(parameters.GROUP,),
        body=AckBody,
        replies={200: _SETTLED},
        problems=_SETTLE,
        examples=(Example(text="One", body={"receipts": [samples.RECEIPT]}),),
    ),
    Operation(
        method="POST",
        template=_GROUP + ":nack",
        name="nackMessages",
        tag=TAG.name,
        summary="Give messages back, to be offered again",
        parameters=(parameters.GROUP,),
        body=NackBody,
        replies={200: _SETTLED},
        problems=_SETTLE,
        examples=(
            Example(
                text="Again in five seconds",
                body={"receipts": [samples.RECEIPT], "delay_ms": 5000},
            ),
        ),
    ),
    Operation(
        method="POST",
        template=_GROUP + ":extend",
        name="extendMessages",
        tag=TAG.name,
        summary="Keep messages for longer",
        text="The time counts from now. Each result has a receipt that replaces the "
        "one you gave.",
        parameters=(parameters.GROUP,),
        body=ExtendBody,
        replies={200: _SETTLED},
        problems=_SETTLE,
        examples=(
            Example(
                text="One more minute",
                body={"receipts": [samples.RECEIPT], "invisible_ms": 60_000},
            ),
        ),
    ),
    Operation(
        method="GET",
        template="/v1/topics/{topic}/queues/{queue}/messages",
        name="pullMessages",
        tag=TAG.name,
        summary="Read a queue by offset, without a group",
        text="Nothing is marked as read. Without an offset it begins with the oldest "
        "message that is kept.",
        parameters=(
            parameters.READABLE_TOPIC,
            parameters.path(
                "queue",
                "The queue; they are counted from 0.",
                {"type": "integer", "minimum": 0, "maximum": 1023},
                "0",
            ),
            parameters.query(
                "offset",
                "Where to begin: `next_offset` of the answer before.",
                {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
            ),
            parameters.count("max", "How many at most.", 32, 1, 1000),
            parameters.WAIT,
            parameters.query(
                "filter",
                "Leaves out what it does not want: tags with `||` between them, or an "
                "expression. A request line holds 8,190 bytes.",
                {"type": "string", "maxLength": 2_000},
            ),
            parameters.choice(
                "filter_type",
                "What `filter` is: tags, or an SQL92 expression over the properties.",
                [*FILTER_TYPES],
                "tag",
            ),
        ),
        replies={200: Reply("Messages, and where to go on.", PulledView)},
        problems=(
            *codes.SERVICES,
            *codes.QUERY,
            *codes.TOPIC,
            "invalid_request",
            "invalid_filter",
            "unknown_queue",
            "offset_out_of_range",
            "frame_too_large",
        ),
        examples=(
            Example(text="From the oldest on"),
            Example(
                text="Only some",
                parameters={"filter": "amount > 100", "filter_type": "sql92"},
            ),
        ),
    ),
)
