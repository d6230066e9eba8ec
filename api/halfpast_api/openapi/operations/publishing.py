"""Events come in."""

from halfpast_api.batch import BatchView
from halfpast_api.event_body import BatchBody, EventBody
from halfpast_api.openapi import codes, parameters
from halfpast_api.openapi.operation import Example, Operation, Reply, Tag
from halfpast_api.publish import PublishedView

TAG = Tag(
    "Publishing",
    "Events for now or for later. A 2xx means that the event is on the disk.",
)
_TOPIC_EVENTS = "/v1/topics/{topic}/events"

OPERATIONS = (
    Operation(
        method="POST",
        template=_TOPIC_EVENTS,
        name="publishEvent",
        tag=TAG.name,
        summary="Publish an event, for now or for later",
        text="Give at most one of `deliver_at`, `delay` and `delay_ms`. With none the "
        "event is delivered now; with one it is scheduled, and can be looked at, moved "
        "and cancelled until it is delivered. A topic is created by its first use, "
        "unless the server is configured otherwise.",
        parameters=(parameters.TOPIC, parameters.IDEMPOTENCY_KEY),
        body=EventBody,
        replies={
            201: Reply(
                "It is durable.",
                PublishedView,
                ("Location", "ETag", "Idempotency-Replayed"),
            )
        },
        problems=(*codes.PUBLISH, *codes.IDEMPOTENT),
        examples=(
            Example(
                text="In half an hour",
                body={"data": {"order": 17}, "delay": "PT30M"},
                status=201,
            ),
            Example(
                text="At a moment",
                body={
                    "data": {"order": 17},
                    "key": "customer-42",
                    "tag": "paid",
                    "properties": {"region": "eu"},
                    "deliver_at": "2027-01-04T09:00:00+01:00",
                },
                status=201,
            ),
            Example(
                text="Bytes, now",
                body={"data_base64": "SGFsZnBhc3Q=", "tag": "raw"},
                status=201,
            ),
        ),
    ),
    Operation(
        method="PUT",
        template=_TOPIC_EVENTS + "/{key}",
        name="putEvent",
        tag=TAG.name,
        summary="Schedule an event under a name of your own",
        text="Of each name in a topic one event is pending at most: a second request "
        "replaces what was to be delivered and when. So a timer is moved, or a burst "
        "of events debounced, without keeping any id.",
        parameters=(
            parameters.TOPIC,
            parameters.path(
                "key",
                "Your name for it, which is also its key.",
                {"type": "string", "minLength": 1, "maxLength": 64},
                "customer-42",
            ),
            parameters.IF_MATCH,
            parameters.IF_NONE_MATCH,
        ),
        body=EventBody,
        replies={
            200: Reply(
                "It replaced one that was pending.", PublishedView, ("Location", "ETag")
            ),
            201: Reply("It is new.", PublishedView, ("Location", "ETag")),
        },
        problems=(
            *codes.PUBLISH,
            *codes.VERSION,
            "unknown_event",
            "already_delivered",
            "already_cancelled",
        ),
        examples=(
            Example(
                text="In ten minutes, unless something happens before",
                body={"data": {"cart": 9}, "delay": "PT10M"},
                status=201,
            ),
        ),
    ),
    Operation(
        method="POST",
        template="/v1/events:batch",
        name="publishBatch",
        tag=TAG.name,
        summary="Publish many events of any topics in one request",
        text="All that are taken are stored in one atomic write. Each has a result of "
        "its own; with `atomic` one bad event refuses all of them.",
        parameters=(parameters.IDEMPOTENCY_KEY,),
        body=BatchBody,
        replies={
            200: Reply("One result per event.", BatchView, ("Idempotency-Replayed",))
        },
        problems=(*codes.PUBLISH, *codes.IDEMPOTENT, "too_many_events"),
        examples=(
            Example(
                text="Two events",
                body={
                    "events": [
                        {"topic": "reminders", "data": {"order": 17}, "delay": "P1D"},
                        {"topic": "mail", "data": {"to": "ada@example.com"}},
                    ],
                    "atomic": True,
                },
            ),
        ),
    ),
)
