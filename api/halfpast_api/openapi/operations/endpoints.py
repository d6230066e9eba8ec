"""Endpoints: where messages are pushed to; and dead letters of those who consume."""

from halfpast_api.openapi import codes, parameters, samples
from halfpast_api.openapi.operation import Example, Operation, Reply, Tag
from halfpast_api.push.attempt_pages import AttemptPageView
from halfpast_api.push.endpoint_body import (
    EndpointBody,
    ReasonBody,
    RotateBody,
    TestBody,
)
from halfpast_api.push.endpoint_name import NAME_LENGTH_MAX
from halfpast_api.push.endpoint_view import (
    DeletedEndpointView,
    EndpointListView,
    EndpointView,
    RotatedView,
    TestView,
)

TAG = Tag(
    "Endpoints",
    "Messages are posted to an address of yours, signed after Standard Webhooks, until "
    "it answers 2xx. What fails is tried again over hours, then it is a dead letter.",
)
_ALL, _ONE = "/v1/endpoints", "/v1/endpoints/{name}"
_NAME = parameters.path(
    "name",
    "The endpoint's name.",
    {"type": "string", "pattern": f"^[A-Za-z0-9_-]{{1,{NAME_LENGTH_MAX}}}$"},
    "crm",
)
_CHANGE = (_NAME, parameters.IF_MATCH)
_REPLY = Reply("The endpoint.", EndpointView, ("ETag",))
_FIND = codes.ENDPOINT
_WRITE = (
    *_FIND,
    *codes.BODY,
    *codes.SETTINGS,
    *codes.SERVICES,
    *codes.TOPIC,
    "invalid_url",
    "forbidden_url",
    "invalid_secret",
)
_STATE = (*_FIND, *codes.BODY, *codes.SETTINGS)

_SETTINGS = (
    Operation(
        method="GET",
        template=_ALL,
        name="listEndpoints",
        tag=TAG.name,
        summary="List endpoints by name",
        parameters=(parameters.LIMIT, parameters.PAGE_TOKEN),
        replies={200: Reply("A page of endpoints.", EndpointListView)},
        problems=(*codes.METADATA, *codes.PAGE),
        examples=(Example(text="The first page"),),
    ),
    Operation(
        method="GET",
        template=_ONE,
        name="getEndpoint",
        tag=TAG.name,
        summary="Look at an endpoint, and how it stands now",
        parameters=(_NAME,),
        replies={200: _REPLY},
        problems=_FIND,
        examples=(Example(text="An endpoint"),),
    ),
    Operation(
        method="PUT",
        template=_ONE,
        name="putEndpoint",
        tag=TAG.name,
        summary="Have messages posted to an address",
        text="`url` and `topics` are needed. What else is left out gets its default, "
        "but for secrets, state and start. A secret that the server makes is shown in "
        "this one answer.",
        parameters=(_NAME, parameters.IF_MATCH, parameters.IF_NONE_MATCH),
        body=EndpointBody,
        replies={
            200: _REPLY,
            201: Reply("It is new.", EndpointView, ("ETag", "Location")),
        },
        problems=_WRITE,
        examples=(
            Example(
                text="All orders, one after the other for each key",
                body={
                    "url": "https://crm.example.com/hooks/halfpast",
                    "topics": ["reminders"],
                    "ordering": "per_key",
                },
                status=201,
            ),
        ),
    ),
    Operation(
        method="PATCH",
        template=_ONE,
        name="changeEndpoint",
        tag=TAG.name,
        summary="Change some settings of an endpoint",
        parameters=_CHANGE,
        body=EndpointBody,
        replies={200: _REPLY},
        problems=_WRITE,
        examples=(
            Example(
                text="Ten a second, and only some",
                body={"rate_per_s": 10, "filter": {"tags": ["paid"]}},
            ),
        ),
    ),
    Operation(
        method="DELETE",
        template=_ONE,
        name="deleteEndpoint",
        tag=TAG.name,
        summary="Post nothing more",
        text="Its attempts and dead letters stay for a while.",
        parameters=_CHANGE,
        replies={200: Reply("It is gone.", DeletedEndpointView)},
        problems=(*_FIND, *codes.VERSION),
        examples=(Example(text="It goes"),),
    ),
)

_ACTS = (
    Operation(
        method="POST",
        template=_ONE + ":pause",
        name="pauseEndpoint",
        tag=TAG.name,
        summary="Pause an endpoint; its messages wait",
        parameters=_CHANGE,
        body=ReasonBody,
        body_optional=True,
        replies={200: _REPLY},
        problems=_STATE,
        examples=(Example(text="For a release", body={"reason": "release at noon"}),),
    ),
    Operation(
        method="POST",
        template=_ONE + ":resume",
        name="resumeEndpoint",
        tag=TAG.name,
        summary="Let a paused endpoint go on",
        parameters=_CHANGE,
        body=ReasonBody,
        body_optional=True,
        replies={200: _REPLY},
        problems=_STATE,
        examples=(Example(text="It goes on"),),
    ),
    Operation(
        method="POST",
        template=_ONE + ":enable",
        name="enableEndpoint",
        tag=TAG.name,
        summary="Enable an endpoint that was disabled by its answer",
        text="An answer of 410 disables an endpoint.",
        parameters=_CHANGE,
        body=ReasonBody,
        body_optional=True,
        replies={200: _REPLY},
        problems=_STATE,
        examples=(Example(text="It is back"),),
    ),
    Operation(
        method="POST",
        template=_ONE + ":rotate-secret",
        name="rotateEndpointSecret",
        tag=TAG.name,
        summary="Sign with a new secret, and with the one before as well",
        text="When all receivers have the new one, end it with `finish`.",
        parameters=_CHANGE,
        body=RotateBody,
        body_optional=True,
        replies={200: Reply("Shown this once.", RotatedView, ("ETag",))},
        problems=(*_STATE, "invalid_secret"),
        examples=(
            Example(text="A new one"),
            Example(text="All have it", body={"finish": True}),
        ),
    ),
    Operation(
        method="POST",
        template=_ONE + ":test",
        name="testEndpoint",
        tag=TAG.name,
        summary="Post a made-up event now, and show the answer",
        parameters=(_NAME,),
        body=TestBody,
        body_optional=True,
        replies={200: Reply("What came of it.", TestView)},
        problems=(*_FIND, *codes.BODY, *codes.SERVICES, *codes.TOPIC),
        examples=(Example(text="Data of your own", body={"data": {"hello": 1}}),),
    ),
    Operation(
        method="GET",
        template=_ONE + "/attempts",
        name="listAttempts",
        tag=TAG.name,
        summary="List attempts to deliver, the newest first",
        parameters=(
            _NAME,
            parameters.query(
                "event_id",
                "Only those of this event.",
                parameters.SOME_ID_SCHEMA,
                samples.EVENT,
            ),
            parameters.choice(
                "state",
                "Only those in this state; `failed` is all but `delivered`.",
                ["", "failed", "delivered", "retrying", "dead", "held"],
            ),
            parameters.LIMIT,
            parameters.PAGE_TOKEN,
        ),
        replies={200: Reply("A page of attempts.", AttemptPageView)},
        problems=(*_FIND, *codes.PAGE, "invalid_event_id"),
        examples=(Example(text="What failed", parameters={"state": "failed"}),),
    ),
)
OPERATIONS = (*_SETTINGS, *_ACTS)
