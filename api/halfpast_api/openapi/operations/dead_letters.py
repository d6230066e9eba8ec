"""Dead letters: what a topic, a consumer group or an endpoint did not take."""

from halfpast_api.delay.bulk_bodies import OperationView
from halfpast_api.delay.dead_letters import DeadLetterPageView
from halfpast_api.openapi import codes, parameters
from halfpast_api.openapi.operation import Example, Operation, Reply, Tag
from halfpast_api.push.dead_letters import DeadLettersBody
from halfpast_api.push.dead_view import DeadCountsView, DeadMessagePageView

TAG = Tag(
    "Dead letters",
    "What was given up, with the reason: scheduled events that their topic did not "
    "take, messages that a consumer group or an endpoint failed at. They are tried "
    "again, or discarded, one by one or many at once.",
)
_ALL = "/v1/dead-letters"
_BEGUN = Reply("It has begun.", OperationView, ("Location", "Idempotency-Replayed"))
_TEXT = (
    "At least one of `ids` and the members of the filter, or `all`. Of `source` "
    "`group` say which `group`, of `endpoint` which `endpoint`. With `dry_run` it only "
    "counts. The answer is an operation."
)
_BEGIN = (
    *codes.BODY,
    *codes.IDEMPOTENT,
    *codes.METADATA,
    *codes.TOPIC,
    *codes.GROUP,
    *codes.QUERY,
    "filter_required",
    "invalid_endpoint_name",
    "invalid_event_id",
    "invalid_time",
    "too_many_operations",
)

OPERATIONS = (
    Operation(
        method="GET",
        template=_ALL,
        name="listDeadLetters",
        tag=TAG.name,
        summary="List dead letters with their reasons",
        parameters=(
            parameters.choice(
                "source",
                "Who did not take them.",
                ["delay", "group", "endpoint"],
                "delay",
            ),
            parameters.query(
                "group",
                "Of which consumer group, with `source=group`.",
                parameters.GROUP_SCHEMA,
                "mailer",
            ),
            parameters.query(
                "endpoint",
                "Of which endpoint, with `source=endpoint`.",
                {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
                "crm",
            ),
            parameters.IN_TOPIC,
            parameters.LIMIT,
            parameters.PAGE_TOKEN,
        ),
        replies={
            200: Reply(
                "A page: events (`source=delay`), or messages.",
                DeadLetterPageView,
                other=DeadMessagePageView,
            )
        },
        problems=(
            *codes.SERVICES,
            *codes.PAGE,
            *codes.TOPIC,
            *codes.GROUP,
            "invalid_endpoint_name",
        ),
        examples=(
            Example(text="Scheduled events that their topic did not take"),
            Example(
                text="Of a consumer group",
                parameters={"source": "group", "group": "mailer"},
            ),
        ),
    ),
    Operation(
        method="GET",
        template=_ALL + "/counts",
        name="countDeadLetters",
        tag=TAG.name,
        summary="See which groups and endpoints have dead letters",
        parameters=(parameters.LIMIT, parameters.PAGE_TOKEN),
        replies={200: Reply("A page of counts.", DeadCountsView)},
        problems=(*codes.SERVICES, *codes.PAGE),
        examples=(Example(text="All"),),
    ),
    Operation(
        method="POST",
        template=_ALL + ":redrive",
        name="redriveDeadLetters",
        tag=TAG.name,
        summary="Have dead letters tried again",
        text=_TEXT,
        parameters=(parameters.IDEMPOTENCY_KEY,),
        body=DeadLettersBody,
        replies={202: _BEGUN},
        problems=_BEGIN,
        examples=(
            Example(
                text="How many would it be?",
                body={"source": "delay", "topic": "reminders", "dry_run": True},
                status=202,
            ),
        ),
    ),
    Operation(
        method="POST",
        template=_ALL + ":discard",
        name="discardDeadLetters",
        tag=TAG.name,
        summary="Give dead letters up for good",
        text=_TEXT,
        parameters=(parameters.IDEMPOTENCY_KEY,),
        body=DeadLettersBody,
        replies={202: _BEGUN},
        problems=_BEGIN,
        examples=(
            Example(
                text="All of a group",
                body={"source": "group", "group": "mailer", "all": True},
                status=202,
            ),
        ),
    ),
)
