"""Topics and groups as calls name them."""

from halfpast_api.names import check_group
from halfpast_api.rocketmq.protocol import Code, Resource
from halfpast_api.rocketmq.statuses import CallRefused


def topic_name(resource: Resource) -> str:
    """The name of a topic, which must be there. What it may be is checked where it is
    looked up. Raises CallRefused."""
    if not resource.name:
        raise CallRefused(
            Code.ILLEGAL_TOPIC, "the call names no topic; give the name of one"
        )
    return resource.name


def group_name(resource: Resource) -> str:
    """The name of a consumer group. Raises CallRefused, Refusal."""
    if not resource.name:
        raise CallRefused(
            Code.ILLEGAL_CONSUMER_GROUP,
            "the call names no consumer group; give the name of one",
        )
    check_group(resource.name)
    return resource.name
