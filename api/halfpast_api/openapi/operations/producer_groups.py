"""Producer groups: how they are asked for outcomes, and how they answer."""

from halfpast_api.openapi import codes, parameters, samples
from halfpast_api.openapi.operation import Example, Operation, Reply, Tag
from halfpast_api.transactions.bodies import AnswersBody
from halfpast_api.transactions.checks import ChecksView
from halfpast_api.transactions.outcomes import EndedView
from halfpast_api.transactions.producer_groups import (
    DeletedView,
    ProducerGroupBody,
    ProducerGroupListView,
    ProducerGroupView,
)

TAG = Tag(
    "Producer groups",
    "When a transaction gets no outcome, its producer group is asked how it ended "
    "(check-back): by a signed call, or whoever of the group polls for questions.",
)
_GROUPS, _GROUP = "/v1/producer-groups", "/v1/producer-groups/{group}"
_CHECKS = _GROUP + "/checks"

OPERATIONS = (
    Operation(
        method="GET",
        template=_GROUPS,
        name="listProducerGroups",
        tag=TAG.name,
        summary="List producer groups that have settings",
        parameters=(parameters.LIMIT, parameters.PAGE_TOKEN),
        replies={200: Reply("A page of producer groups.", ProducerGroupListView)},
        problems=(*codes.METADATA, *codes.PAGE),
        examples=(Example(text="The first page"),),
    ),
    Operation(
        method="GET",
        template=_GROUP,
        name="getProducerGroup",
        tag=TAG.name,
        summary="Look at the settings of a producer group",
        parameters=(parameters.PRODUCER_GROUP,),
        replies={200: Reply("The producer group.", ProducerGroupView, ("ETag",))},
        problems=(*codes.METADATA, *codes.PRODUCER_GROUP, "unknown_producer_group"),
        examples=(Example(text="A producer group"),),
    ),
    Operation(
        method="PUT",
        template=_GROUP,
        name="putProducerGroup",
        tag=TAG.name,
        summary="Say when and where a producer group is asked",
        text="What is left out gets its default, but for secrets, which stay. A secret "
        "that the server makes is shown in this one answer.",
        parameters=(
            parameters.PRODUCER_GROUP,
            parameters.IF_MATCH,
            parameters.IF_NONE_MATCH,
        ),
        body=ProducerGroupBody,
        replies={
            200: Reply("The producer group.", ProducerGroupView, ("ETag",)),
            201: Reply(
                "It had no settings before.", ProducerGroupView, ("ETag", "Location")
            ),
        },
        problems=(
            *codes.BODY,
            *codes.SETTINGS,
            *codes.PRODUCER_GROUP,
            "invalid_endpoint",
            "forbidden_endpoint",
            "invalid_secret",
        ),
        examples=(
            Example(
                text="Asked over HTTPS, first after ten seconds",
                body={
                    "check_url": "https://orders.example.com/halfpast/check",
                    "check_after_ms": 10_000,
                },
                status=201,
            ),
        ),
    ),
    Operation(
        method="DELETE",
        template=_GROUP,
        name="deleteProducerGroup",
        tag=TAG.name,
        summary="Take the settings of a producer group away",
        text="Its open transactions stay, and are asked about as they began.",
        parameters=(parameters.PRODUCER_GROUP, parameters.IF_MATCH),
        replies={200: Reply("It has the defaults again.", DeletedView)},
        problems=(
            *codes.METADATA,
            *codes.VERSION,
            *codes.PRODUCER_GROUP,
            "unknown_producer_group",
        ),
        examples=(Example(text="It goes"),),
    ),
    Operation(
        method="GET",
        template=_CHECKS,
        name="pollChecks",
        tag=TAG.name,
        summary="Take questions that a producer is to answer",
        text="Whoever takes a question is the one who is asked; if no answer comes, it "
        "is asked again later.",
        parameters=(
            parameters.PRODUCER_GROUP,
            parameters.WAIT,
            parameters.count("max", "How many at most.", 100, 1, 1000),
        ),
        replies={200: Reply("Questions, perhaps none.", ChecksView)},
        problems=(*codes.SERVICES, *codes.QUERY, *codes.PRODUCER_GROUP),
        examples=(Example(text="What is there now"),),
    ),
    Operation(
        method="POST",
        template=_CHECKS + ":answer",
        name="answerChecks",
        tag=TAG.name,
        summary="Answer questions: committed, rolled_back or unknown",
        text="If one of the answers cannot be read, none is taken.",
        parameters=(parameters.PRODUCER_GROUP,),
        body=AnswersBody,
        replies={200: Reply("One result per answer.", EndedView)},
        problems=(
            *codes.BODY,
            *codes.WRITES,
            *codes.PRODUCER_GROUP,
            "malformed_answer",
        ),
        examples=(
            Example(
                text="It was committed",
                body={
                    "answers": [
                        {"id": samples.TRANSACTION, "state": "committed", "check": 1}
                    ]
                },
            ),
        ),
    ),
)
