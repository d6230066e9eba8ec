"""How much callers may ask for."""

from halfpast_api.limits.limit_bodies import (
    DeletedLimitsView,
    LimitsBody,
    LimitsPageView,
    LimitsView,
    OwnLimitsView,
)
from halfpast_api.openapi import codes, parameters, samples
from halfpast_api.openapi.operation import Example, Operation, Reply, Tag

TAG = Tag(
    "Limits",
    "How much a key, a user or a namespace may ask for: requests and bytes a second, "
    "pending events, how far ahead. Beyond that it is 429 with `Retry-After`; in every "
    "answer `RateLimit` tells how it stands. 503 `overloaded` is no limit of yours: "
    "the server has too much to do.",
)
_SUBJECTS, _ONE = "/v1/limits/subjects", "/v1/limits/subjects/{subject}"
_SUBJECT = parameters.path(
    "subject",
    "For whom: `key:ID`, `user:NAME`, `namespace:NAME`, `default-namespace`; or all of "
    "a kind that have none of their own: `every-key`, `every-user`, `every-namespace`.",
    {
        "type": "string",
        "pattern": "^(?:key:[a-z0-9]{8}|user:[!-~]{1,250}"
        "|namespace:[A-Za-z0-9][A-Za-z0-9_-]{0,31}"
        "|default-namespace|every-key|every-user|every-namespace)$",
    },
    f"key:{samples.KEY_ID}",
)
_USERS = {"subject": "every-user"}
_REPLY = Reply("The limits.", LimitsView, ("ETag",))
_WHOSE = (*codes.METADATA, "invalid_subject", "unknown_key", "unknown_namespace")

OPERATIONS = (
    Operation(
        method="GET",
        template="/v1/limits",
        name="getOwnLimits",
        tag=TAG.name,
        summary="What you may ask for, and how much of it is used",
        text="What is left is that of the process which answers; each has its own.",
        replies={200: Reply("Your limits, and the server's.", OwnLimitsView)},
        examples=(Example(text="Yours"),),
    ),
    Operation(
        method="GET",
        template=_SUBJECTS,
        name="listLimits",
        tag=TAG.name,
        summary="List who has limits",
        parameters=(parameters.LIMIT, parameters.PAGE_TOKEN),
        replies={200: Reply("A page of limits.", LimitsPageView)},
        problems=(*codes.METADATA, *codes.PAGE),
        examples=(Example(text="The first page"),),
    ),
    Operation(
        method="PUT",
        template=_ONE,
        name="putLimits",
        tag=TAG.name,
        summary="Give limits; they replace those before, all of them",
        parameters=(_SUBJECT, parameters.IF_MATCH, parameters.IF_NONE_MATCH),
        body=LimitsBody,
        replies={
            200: _REPLY,
            201: Reply("It had none.", LimitsView, ("ETag", "Location")),
        },
        problems=(*_WHOSE, *codes.BODY, *codes.SETTINGS),
        examples=(
            Example(
                text="A key: 100 requests a second, 300 at once",
                body={"requests_per_s": 100, "request_burst": 300},
                status=201,
            ),
            Example(
                text="All keys that have none: a year ahead, a MB a second",
                parameters={"subject": "every-key"},
                body={"max_delay_ms": 31_536_000_000, "bytes_per_s": 1_000_000},
                status=201,
            ),
        ),
    ),
    Operation(
        method="GET",
        template=_ONE,
        name="getLimits",
        tag=TAG.name,
        summary="Look at somebody's limits",
        parameters=(_SUBJECT,),
        replies={200: _REPLY},
        problems=(*_WHOSE, "no_limits"),
        examples=(Example(text="Those of users", parameters=_USERS),),
    ),
    Operation(
        method="DELETE",
        template=_ONE,
        name="deleteLimits",
        tag=TAG.name,
        summary="Take somebody's limits away",
        parameters=(_SUBJECT, parameters.IF_MATCH),
        replies={200: Reply("They are gone.", DeletedLimitsView)},
        problems=(*_WHOSE, *codes.VERSION, "no_limits"),
        examples=(Example(text="Users have none", parameters=_USERS),),
    ),
)
