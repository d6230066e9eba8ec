"""Topics and consumer groups are administered."""

from halfpast_api.group_admin import (
    GroupBody,
    GroupListView,
    GroupView,
    LagView,
    OffsetsBody,
)
from halfpast_api.openapi import codes, parameters
from halfpast_api.openapi.operation import Example, Operation, Parameter, Reply, Tag
from halfpast_api.topic_admin import (
    NewTopicBody,
    TopicBody,
    TopicListView,
    TopicView,
)

TAG = Tag(
    "Topics",
    "Topics are made by their first use. Their settings say how much they take, and "
    "how fast what is scheduled is released.",
)
GROUP_TAG = Tag(
    "Groups", "Consumer groups: their settings, where they stand, moving them."
)
_TOPICS, _TOPIC = "/v1/topics", "/v1/topics/{topic}"
_GROUPS, _GROUP = "/v1/groups", "/v1/groups/{group}"
_PAGE = (parameters.LIMIT, parameters.PAGE_TOKEN)
_CONDITIONS = (parameters.IF_MATCH, parameters.IF_NONE_MATCH)
_NEW_TOPIC = Reply("It is new.", TopicView, ("ETag", "Location"))
_CHANGED_TOPIC = Reply("The topic.", TopicView, ("ETag",))
_PUT_TOPIC = (
    *codes.BODY,
    *codes.WRITES,
    *codes.SETTINGS,
    "invalid_topic",
    "reserved_topic",
    "queues_shrink",
)

_TOPIC_OPERATIONS = (
    Operation(
        method="GET",
        template=_TOPICS,
        name="listTopics",
        tag=TAG.name,
        summary="List topics by name",
        parameters=_PAGE,
        replies={200: Reply("A page of topics.", TopicListView)},
        problems=(*codes.SERVICES, *codes.PAGE),
        examples=(Example(text="The first page"),),
    ),
    Operation(
        method="POST",
        template=_TOPICS,
        name="createTopic",
        tag=TAG.name,
        summary="Create a topic with settings",
        body=NewTopicBody,
        replies={201: _NEW_TOPIC},
        problems=(*_PUT_TOPIC, "topic_exists"),
        examples=(
            Example(
                text="Eight queues, two weeks at most",
                body={"name": "invoices", "queues": 8, "max_delay_ms": 1_209_600_000},
                status=201,
            ),
        ),
    ),
    Operation(
        method="GET",
        template=_TOPIC,
        name="getTopic",
        tag=TAG.name,
        summary="Look at a topic, its queues, and how its release stands",
        parameters=(parameters.READABLE_TOPIC,),
        replies={200: _CHANGED_TOPIC},
        problems=(*codes.SERVICES, *codes.METADATA, *codes.TOPIC),
        examples=(Example(text="A topic"),),
    ),
    Operation(
        method="PUT",
        template=_TOPIC,
        name="putTopic",
        tag=TAG.name,
        summary="Give a topic settings; what is left out gets its default",
        parameters=(parameters.TOPIC, *_CONDITIONS),
        body=TopicBody,
        replies={200: _CHANGED_TOPIC, 201: _NEW_TOPIC},
        problems=_PUT_TOPIC,
        examples=(
            Example(text="Bounded", body={"max_pending": 1_000_000, "queues": 4}),
        ),
    ),
    Operation(
        method="PATCH",
        template=_TOPIC,
        name="changeTopic",
        tag=TAG.name,
        summary="Change some settings of a topic",
        text="`paused` holds back what is scheduled until it is false again; "
        "`release_rate_per_s` spreads it out.",
        parameters=(parameters.TOPIC, parameters.IF_MATCH),
        body=TopicBody,
        replies={200: _CHANGED_TOPIC},
        problems=(*_PUT_TOPIC, "unknown_topic"),
        examples=(
            Example(text="Pause", body={"paused": True}),
            Example(
                text="Go on, 50 a second",
                body={"paused": False, "release_rate_per_s": 50},
            ),
        ),
    ),
)

_GROUP_OPERATIONS = (
    Operation(
        method="GET",
        template=_GROUPS,
        name="listGroups",
        tag=GROUP_TAG.name,
        summary="List consumer groups by name",
        parameters=_PAGE,
        replies={200: Reply("A page of groups.", GroupListView)},
        problems=(*codes.SERVICES, *codes.METADATA, *codes.PAGE),
        examples=(Example(text="The first page"),),
    ),
    Operation(
        method="GET",
        template=_GROUP,
        name="getGroup",
        tag=GROUP_TAG.name,
        summary="Look at the settings of a group",
        parameters=(parameters.GROUP,),
        replies={200: Reply("The group.", GroupView, ("ETag",))},
        problems=(*codes.SERVICES, *codes.METADATA, *codes.GROUP, "unknown_group"),
        examples=(Example(text="A group"),),
    ),
    Operation(
        method="PUT",
        template=_GROUP,
        name="putGroup",
        tag=GROUP_TAG.name,
        summary="Give a group settings; what is left out gets its default",
        parameters=(parameters.GROUP, *_CONDITIONS),
        body=GroupBody,
        replies={
            200: Reply("The group.", GroupView, ("ETag",)),
            201: Reply("It had no settings before.", GroupView, ("ETag", "Location")),
        },
        problems=(*codes.BODY, *codes.SETTINGS, *codes.GROUP),
        examples=(
            Example(
                text="Five attempts, a minute each",
                body={"max_attempts": 5, "invisible_ms": 60_000},
                status=201,
            ),
            Example(
                text="The messages of a key one at a time, in order",
                body={"max_attempts": 5, "ordered": True},
            ),
        ),
    ),
    Operation(
        method="GET",
        template=_GROUP + "/lag",
        name="getLag",
        tag=GROUP_TAG.name,
        summary="See how far behind a group is",
        parameters=(
            parameters.GROUP,
            Parameter(
                "topic",
                "query",
                "Of which topic.",
                parameters.READABLE_TOPIC_SCHEMA,
                "reminders",
                required=True,
            ),
        ),
        replies={200: Reply("Its lag, queue by queue.", LagView)},
        problems=(
            *codes.SERVICES,
            *codes.QUERY,
            *codes.TOPIC,
            *codes.GROUP,
            "unknown_group",
        ),
        examples=(Example(text="A group's lag", parameters={"topic": "reminders"}),),
    ),
    Operation(
        method="PUT",
        template=_GROUP + "/offsets",
        name="putOffsets",
        tag=GROUP_TAG.name,
        summary="Move a group to other offsets, back or forth",
        parameters=(parameters.GROUP,),
        body=OffsetsBody,
        replies={200: Reply("Where it stands now.", LagView)},
        problems=(
            *codes.BODY,
            *codes.WRITES,
            *codes.TOPIC,
            *codes.GROUP,
            "unknown_group",
            "unknown_queue",
            "offset_out_of_range",
        ),
        examples=(
            Example(
                text="From the beginning of queue 0",
                body={"topic": "reminders", "offsets": {"0": 0}},
            ),
        ),
    ),
)
OPERATIONS = (*_TOPIC_OPERATIONS, *_GROUP_OPERATIONS)
