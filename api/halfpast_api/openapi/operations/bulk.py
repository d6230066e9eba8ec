"""Many events are changed at once."""

from halfpast_api.delay.bulk_bodies import (
    STATES,
    BulkBody,
    BulkRescheduleBody,
    OperationPageView,
    OperationView,
)
from halfpast_api.openapi import codes, parameters
from halfpast_api.openapi.operation import Example, Operation, Reply, Tag

TAG = Tag(
    "Bulk",
    "Cancel or move all events that a filter means. The work goes on behind the "
    "answer, as an operation that can be watched and stopped; a dry run only counts.",
)
_OPERATIONS, _OPERATION = "/v1/operations", "/v1/operations/{id}"
_BEGUN = Reply("It has begun.", OperationView, ("Location", "Idempotency-Replayed"))
_REPLY = Reply("The operation.", OperationView)
_FIND = (*codes.SERVICES, "invalid_operation_id", "unknown_operation")
_BEGIN = (
    *codes.BODY,
    *codes.WRITES,
    *codes.IDEMPOTENT,
    *codes.TOPIC,
    "filter_required",
    "invalid_key",
    "invalid_tag",
    "invalid_time",
    "too_many_operations",
)

OPERATIONS = (
    Operation(
        method="POST",
        template="/v1/events:cancel",
        name="cancelEvents",
        tag=TAG.name,
        summary="Cancel all events that a filter means",
        text='Give at least one member of the filter, or `"all": true` and nothing '
        "else. With `dry_run` it counts and changes nothing.",
        parameters=(parameters.IDEMPOTENCY_KEY,),
        body=BulkBody,
        replies={202: _BEGUN},
        problems=_BEGIN,
        examples=(
            Example(
                text="How many would it be?",
                body={"topic": "reminders", "tag": "paid", "dry_run": True},
                status=202,
            ),
        ),
    ),
    Operation(
        method="POST",
        template="/v1/events:reschedule",
        name="rescheduleEvents",
        tag=TAG.name,
        summary="Move all events that a filter means",
        text="Exactly one of `shift_ms` (by how much, also back) and `deliver_at`.",
        parameters=(parameters.IDEMPOTENCY_KEY,),
        body=BulkRescheduleBody,
        replies={202: _BEGUN},
        problems=(*_BEGIN, *codes.TIME),
        examples=(
            Example(
                text="An hour later",
                body={
                    "topic": "reminders",
                    "due_before": "2027-01-05T00:00:00Z",
                    "shift_ms": 3_600_000,
                    "dry_run": True,
                },
                status=202,
            ),
        ),
    ),
    Operation(
        method="GET",
        template=_OPERATIONS,
        name="listOperations",
        tag=TAG.name,
        summary="List operations, the newest first",
        parameters=(
            parameters.choice("state", "Only those in this state.", sorted(STATES)),
            parameters.LIMIT,
            parameters.PAGE_TOKEN,
        ),
        replies={200: Reply("A page of operations.", OperationPageView)},
        problems=(*codes.SERVICES, *codes.PAGE),
        examples=(Example(text="All that are remembered"),),
    ),
    Operation(
        method="GET",
        template=_OPERATION,
        name="getOperation",
        tag=TAG.name,
        summary="See how far an operation has come",
        parameters=(parameters.OPERATION_ID,),
        replies={200: _REPLY},
        problems=_FIND,
        examples=(Example(text="An operation"),),
    ),
    Operation(
        method="POST",
        template=_OPERATION + ":cancel",
        name="stopOperation",
        tag=TAG.name,
        summary="Stop an operation",
        text="What it has changed stays so.",
        parameters=(parameters.OPERATION_ID,),
        replies={200: _REPLY},
        problems=(*_FIND, *codes.WRITES, "operation_ended"),
    ),
)
