"""Schedules recur."""

from halfpast_api.delay.schedule_bodies import ScheduleBody, ScheduleChange
from halfpast_api.delay.schedule_view import (
    STATES,
    NextView,
    SchedulePageView,
    ScheduleView,
)
from halfpast_api.openapi import codes, parameters
from halfpast_api.openapi.operation import Example, Operation, Reply, Tag

TAG = Tag(
    "Schedules",
    "The same message again and again: by a cron expression in a time zone, at an "
    "interval, or with pauses that grow.",
)
_SCHEDULES, _ONE = "/v1/schedules", "/v1/schedules/{id}"
_REPLY = Reply("The schedule.", ScheduleView, ("ETag",))
_FIND = (*codes.SERVICES, "invalid_schedule_id", "unknown_schedule")
_CHANGE = (*_FIND, *codes.WRITES, *codes.VERSION, "schedule_ended")
_RULE = (
    *codes.CONTENT,
    "invalid_schedule",
    "invalid_cron",
    "unknown_time_zone",
    "never_occurs",
    "invalid_time",
)

OPERATIONS = (
    Operation(
        method="POST",
        template=_SCHEDULES,
        name="createSchedule",
        tag=TAG.name,
        summary="Create a recurring schedule",
        text="Exactly one of `cron`, `interval` (or `interval_ms`) and `exponential`.",
        parameters=(parameters.IDEMPOTENCY_KEY,),
        body=ScheduleBody,
        replies={
            201: Reply(
                "The schedule.",
                ScheduleView,
                ("ETag", "Location", "Idempotency-Replayed"),
            )
        },
        problems=(
            *codes.BODY,
            *codes.WRITES,
            *codes.METADATA,
            *codes.TOPIC,
            *codes.IDEMPOTENT,
            *_RULE,
            "topic_closed",
        ),
        examples=(
            Example(
                text="On working days at half past two, Berlin time",
                body={
                    "topic": "reports",
                    "cron": "30 2 * * MON-FRI",
                    "time_zone": "Europe/Berlin",
                    "data": {"kind": "daily"},
                    "catch_up": "fire_once",
                },
                status=201,
            ),
            Example(
                text="Every five minutes, not all at the same second",
                body={
                    "topic": "reports",
                    "interval": "PT5M",
                    "jitter": "PT20S",
                    "data": {"kind": "ping"},
                },
                status=201,
            ),
            Example(
                text="Ten times, with pauses that double",
                body={
                    "topic": "reports",
                    "exponential": {"first": "PT1S", "factor": 2, "longest": "PT1H"},
                    "times": 10,
                    "data": {"kind": "poll"},
                },
                status=201,
            ),
        ),
    ),
    Operation(
        method="GET",
        template=_SCHEDULES,
        name="listSchedules",
        tag=TAG.name,
        summary="List schedules in the order in which they were made",
        parameters=(
            parameters.IN_TOPIC,
            parameters.choice("state", "Only those in this state.", sorted(STATES)),
            parameters.LIMIT,
            parameters.PAGE_TOKEN,
        ),
        replies={200: Reply("A page of schedules, without data.", SchedulePageView)},
        problems=(*codes.SERVICES, *codes.PAGE, *codes.TOPIC),
        examples=(Example(text="Active ones", parameters={"state": "active"}),),
    ),
    Operation(
        method="GET",
        template=_ONE,
        name="getSchedule",
        tag=TAG.name,
        summary="Look at a schedule",
        parameters=(parameters.SCHEDULE_ID,),
        replies={200: _REPLY},
        problems=_FIND,
        examples=(Example(text="A schedule"),),
    ),
    Operation(
        method="PATCH",
        template=_ONE,
        name="changeSchedule",
        tag=TAG.name,
        summary="Change a schedule",
        text="What is left out stays; null takes something away.",
        parameters=(parameters.SCHEDULE_ID, parameters.IF_MATCH),
        body=ScheduleChange,
        replies={200: _REPLY},
        problems=(*codes.BODY, *_CHANGE, *_RULE, "topic_closed"),
        examples=(
            Example(text="An hour later", body={"cron": "30 3 * * MON-FRI"}),
            Example(text="Without an end", body={"until": None}),
        ),
    ),
    Operation(
        method="DELETE",
        template=_ONE,
        name="deleteSchedule",
        tag=TAG.name,
        summary="End a schedule",
        text="What it has made already is delivered all the same.",
        parameters=(parameters.SCHEDULE_ID, parameters.IF_MATCH),
        replies={200: _REPLY},
        problems=_CHANGE,
        examples=(Example(text="It ends"),),
    ),
    Operation(
        method="POST",
        template=_ONE + ":pause",
        name="pauseSchedule",
        tag=TAG.name,
        summary="Pause a schedule",
        parameters=(parameters.SCHEDULE_ID, parameters.IF_MATCH),
        replies={200: _REPLY},
        problems=_CHANGE,
        examples=(Example(text="It pauses"),),
    ),
    Operation(
        method="POST",
        template=_ONE + ":resume",
        name="resumeSchedule",
        tag=TAG.name,
        summary="Let a paused schedule go on",
        parameters=(parameters.SCHEDULE_ID, parameters.IF_MATCH),
        replies={200: _REPLY},
        problems=_CHANGE,
        examples=(Example(text="It goes on"),),
    ),
    Operation(
        method="GET",
        template=_ONE + "/next",
        name="listNextOccurrences",
        tag=TAG.name,
        summary="See when a schedule occurs next",
        parameters=(
            parameters.SCHEDULE_ID,
            parameters.count("count", "How many times.", 10, 1, 1000),
        ),
        replies={200: Reply("The next times.", NextView)},
        problems=(*_FIND, *codes.QUERY),
        examples=(Example(text="The next three", parameters={"count": "3"}),),
    ),
)
