"""Where an endpoint begins on a topic: with what comes now, or with all there is."""

from collections.abc import Sequence

from halfpast_api.metadata.endpoint_settings import EARLIEST, EndpointSettings
from halfpast_api.push.topic_match import TopicMatch
from halfpast_core_store.broker import Broker, CommitOffsets, DescribeTopic, ListTopics
from halfpast_core_store.errors import UnknownTopic

_PAGE = 1_000


async def begin_on(
    broker: Broker,
    group: str,
    settings: EndpointSettings,
    before: EndpointSettings | None,
) -> None:
    """Set the group's place on each topic that `settings` mean and `before` did not.

    A topic that does not exist yet needs no place: all of it comes later.
    """
    for topic in await _new_topics(broker, settings, before):
        try:
            described = await broker.describe_topic(DescribeTopic(topic))
        except UnknownTopic:
            continue
        is_early = settings.start == EARLIEST
        offsets = {
            it.queue: it.offset_min if is_early else it.offset_max
            for it in described.queues
        }
        # A former endpoint of this name may have left something in flight.
        await broker.commit_offsets(CommitOffsets(group, topic, offsets, drops=True))


async def _new_topics(
    broker: Broker, settings: EndpointSettings, before: EndpointSettings | None
) -> Sequence[str]:
    match = TopicMatch(settings.topics)
    topics = await _all_topics(broker) if match.has_patterns else []
    meant = match.among(topics)
    if before is None:
        return meant
    was_meant = TopicMatch(before.topics)
    return [topic for topic in meant if not was_meant(topic)]


async def _all_topics(broker: Broker) -> list[str]:
    found: list[str] = []
    while True:
        request = ListTopics(found[-1] if found else "", _PAGE)
        page = (await broker.list_topics(request)).topics
        found += [topic.name for topic in page]
        if len(page) < _PAGE:
            return found
