"""Scheduled events are looked at and changed."""

from halfpast_api.delay.due import DueView
from halfpast_api.event_body import RescheduleBody
from halfpast_api.event_view import STATES, EventPageView, EventView
from halfpast_api.events import CancelledView
from halfpast_api.openapi import codes, parameters, samples
from halfpast_api.openapi.operation import Example, Operation, Reply, Tag

TAG = Tag(
    "Events",
    "What is scheduled: look at it, move it, cancel it, or have it now. The answers "
    "are true: a cancel says whether it came in time.",
)
_EVENTS = "/v1/events"
_EVENT = "/v1/events/{id}"
_ONE = Reply("The event.", EventView, ("ETag",))
_DUE = (
    parameters.choice(
        "resolution", "How long a bucket is.", ["1s", "1m", "1h", "1d"], "1m"
    ),
    parameters.query(
        "from",
        "The first bucket; without it now.",
        parameters.INSTANT_SCHEMA,
        "2027-01-04T00:00:00Z",
    ),
    parameters.query(
        "to",
        "Behind the last bucket; at most 5,000 of them are answered.",
        parameters.INSTANT_SCHEMA,
        "2027-01-05T00:00:00Z",
    ),
)
_DUE_REPLY = Reply("Buckets that are not empty, and what is late.", DueView)
_DUE_EXAMPLE = Example(
    text="A day, hour by hour",
    parameters={
        "resolution": "1h",
        "from": "2027-01-04T00:00:00Z",
        "to": "2027-01-05T00:00:00Z",
    },
)

_LISTS = (
    Operation(
        method="GET",
        template=_EVENTS,
        name="listEvents",
        tag=TAG.name,
        summary="List events by state, topic, key, tag and due time",
        text="In the order of their due times; those that have ended in the order in "
        "which they ended. `data=true` has the data as well, and pages of a few MiB.",
        parameters=(
            parameters.IN_TOPIC,
            parameters.query(
                "key", "Only those with this key.", {"type": "string"}, "customer-42"
            ),
            parameters.query(
                "tag",
                "Only those with this tag. Not for those that are cancelled or "
                "delivered, whose tags are not kept.",
                {"type": "string"},
                "paid",
            ),
            parameters.choice("state", "Their state.", sorted(STATES), "scheduled"),
            parameters.query(
                "due_after",
                "Due at this moment or later.",
                parameters.INSTANT_SCHEMA,
                "2027-01-04T00:00:00Z",
            ),
            parameters.query(
                "due_before",
                "Due before this moment.",
                parameters.INSTANT_SCHEMA,
                "2027-01-05T00:00:00Z",
            ),
            parameters.LIMIT,
            parameters.PAGE_TOKEN,
            parameters.choice(
                "data", "Whether to show the data too.", ["false", "true"], "false"
            ),
        ),
        replies={200: Reply("A page of events.", EventPageView)},
        problems=(*codes.SERVICES, *codes.PAGE, *codes.TOPIC),
        examples=(
            Example(
                text="What is due on a day",
                parameters={
                    "topic": "reminders",
                    "due_after": "2027-01-04T00:00:00Z",
                    "due_before": "2027-01-05T00:00:00Z",
                },
            ),
        ),
    ),
    Operation(
        method="GET",
        template="/v1/due",
        name="countDue",
        tag=TAG.name,
        summary="Count what is due when, and what is late and why",
        parameters=_DUE,
        replies={200: _DUE_REPLY},
        problems=(*codes.SERVICES, *codes.QUERY),
        examples=(_DUE_EXAMPLE,),
    ),
    Operation(
        method="GET",
        template="/v1/topics/{topic}/due",
        name="countDueOfTopic",
        tag=TAG.name,
        summary="Count what of a topic is due when",
        parameters=(parameters.TOPIC, *_DUE),
        replies={200: _DUE_REPLY},
        problems=(*codes.SERVICES, *codes.QUERY, *codes.TOPIC),
        examples=(_DUE_EXAMPLE,),
    ),
)

_ONES = (
    Operation(
        method="GET",
        template=_EVENT,
        name="getEvent",
        tag=TAG.name,
        summary="Look at an event and its time line",
        parameters=(parameters.EVENT_ID,),
        replies={200: _ONE},
        problems=codes.EVENT,
        examples=(Example(text="An event"),),
    ),
    Operation(
        method="PATCH",
        template=_EVENT,
        name="rescheduleEvent",
        tag=TAG.name,
        summary="Give an event another due time",
        text="Exactly one of `deliver_at`, `delay` and `delay_ms`. A delay counts from "
        "this request.",
        parameters=(parameters.EVENT_ID, parameters.IF_MATCH),
        body=RescheduleBody,
        replies={200: _ONE},
        problems=(*codes.BODY, *codes.CHANGE, *codes.TIME, "event_dead"),
        examples=(Example(text="An hour from now", body={"delay": "PT1H"}),),
    ),
    Operation(
        method="POST",
        template=_EVENT + ":deliver-now",
        name="deliverEventNow",
        tag=TAG.name,
        summary="Deliver an event now instead of when it is due",
        parameters=(parameters.EVENT_ID, parameters.IF_MATCH),
        replies={200: _ONE},
        problems=(*codes.CHANGE, "event_dead"),
        examples=(Example(text="Now"),),
    ),
    Operation(
        method="DELETE",
        template=_EVENT,
        name="cancelEvent",
        tag=TAG.name,
        summary="Cancel an event",
        text="`outcome` is `cancelled` (200; it will not be delivered, and this is "
        "durable), `too_late` (409; it has been delivered) or `not_found` (404). "
        "Cancelling twice gives the same answer twice.",
        parameters=(parameters.EVENT_ID, parameters.IF_MATCH),
        replies={200: Reply("It will not be delivered.", CancelledView)},
        problems=codes.CHANGE,
        examples=(Example(text="In time"),),
    ),
    Operation(
        method="POST",
        template=_EVENT + ":redrive",
        name="redriveEvent",
        tag=TAG.name,
        summary="Try a dead letter again, now",
        parameters=(
            parameters.path(
                "id", "The event's id.", parameters.ID_SCHEMA, samples.DEAD_EVENT
            ),
            parameters.IF_MATCH,
        ),
        replies={200: _ONE},
        problems=(*codes.CHANGE, "event_not_dead"),
        examples=(Example(text="Its topic takes it again"),),
    ),
)
OPERATIONS = (*_ONES, *_LISTS)
