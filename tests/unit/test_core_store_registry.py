"""Topics and groups: names, numbers, and that nobody gets a number twice."""

import pytest
from tests.unit.core_store_world import Answers, World

from halfpast_core_store.broker import Append, Lane, Run, TopicInfo
from halfpast_core_store.errors import QueuesShrink
from halfpast_core_store.record import decode_record
from halfpast_core_store.topics import (
    NAME_LENGTH_MAX,
    SYS_TOPICS,
    SYSTEM_TOPICS,
    USER_TOPIC_ID_MIN,
    dead_letter_topic,
    reserved_name,
    valid_name,
)


def draft(world: World, name: str, queue_count: int) -> bytes:
    record = world.store.registry.draft_topic(name, queue_count, 0)
    assert record is not None
    return record


def submit(world: World, record: bytes) -> Answers:
    answers = Answers()
    world.store.submit(Append([Run(SYS_TOPICS, 0, [record])], Lane.SYSTEM), answers)
    return answers


def test_ids_of_topics_go_up_and_survive() -> None:
    world = World()
    first = world.topic("b", 4)
    second = world.topic("a", 1)
    assert (first.id, second.id) == (USER_TOPIC_ID_MIN, USER_TOPIC_ID_MIN + 1)
    for restart in (world.crash, world.rebuild):
        restart()
        registry = world.store.registry
        assert registry.topic("b") == TopicInfo(first.id, "b", 4)
        assert registry.topic_by_id(second.id) == TopicInfo(second.id, "a", 1)
    assert world.topic("c").id == USER_TOPIC_ID_MIN + 2


def test_topics_are_listed_by_name_without_those_of_the_system() -> None:
    world = World()
    for name in ("b", "c", "a", "ab"):
        world.topic(name)
    registry = world.store.registry
    assert [t.name for t in registry.topics("", 10)] == ["a", "ab", "b", "c"]
    assert [t.name for t in registry.topics("a", 2)] == ["ab", "b"]
    assert registry.topics("c", 10) == []


def test_topics_of_the_system_are_always_there() -> None:
    registry = World().store.registry
    for name, number in SYSTEM_TOPICS.items():
        info = registry.topic(name)
        assert info is not None
        assert info.id == number
        assert registry.topic_by_id(number) == info
    assert registry.topic_by_id(999) is None
    assert registry.topic("nobody") is None


def test_a_topic_is_known_when_it_is_durable() -> None:
    world = World()
    submit(world, draft(world, "orders", 4))
    assert world.store.registry.topic("orders") is None
    world.pump()
    assert world.store.registry.topic("orders") is not None


def test_queues_can_be_added_and_never_taken_away() -> None:
    world = World()
    number = world.topic("orders", 4).id
    assert world.store.registry.draft_topic("orders", 4, 0) is None
    assert world.topic("orders", 6) == TopicInfo(number, "orders", 6)
    with pytest.raises(QueuesShrink) as raised:
        world.store.registry.draft_topic("orders", 5, 0)
    assert (raised.value.queue_count, raised.value.asked) == (6, 5)


def test_drafts_of_one_name_that_wait_together_agree() -> None:
    world = World()
    submit(world, draft(world, "orders", 8))
    submit(world, draft(world, "orders", 4))
    other = draft(world, "other", 1)
    world.pump()
    assert world.topic("orders", 8) == TopicInfo(USER_TOPIC_ID_MIN, "orders", 8)
    assert decode_record(other).topic_id == USER_TOPIC_ID_MIN + 1


def test_widenings_that_wait_together_do_not_undo_each_other() -> None:
    world = World()
    world.topic("orders", 2)
    submit(world, draft(world, "orders", 8))
    submit(world, draft(world, "orders", 4))
    world.pump()
    assert world.topic("orders", 8).queue_count == 8


def test_groups_are_known_at_once_and_survive() -> None:
    world = World()
    number, record = world.store.registry.draft_group("readers", 0)
    assert world.store.registry.group("readers") == number
    submit(world, record)
    world.pump()
    world.crash()
    assert world.store.registry.group("readers") == number
    assert world.store.registry.groups("", 10) == ["readers"]
    assert world.store.registry.groups("readers", 10) == []
    assert world.store.registry.group("others") is None


def test_numbers_met_in_the_log_are_given_to_nobody_else() -> None:
    # The index is deleted after retention took the records that named them.
    world = World()
    old = world.topic("old")
    world.publish([bytes(9000)], topic="old")
    world.publish([bytes(9000)], topic="old")
    world.pop(group="oldies", topic="old")
    world.store.log.forget(world.store.log.segments[:1])
    world.store.log.delete_forgotten()
    world.rebuild()
    assert world.store.registry.topic("old") is None
    assert world.topic("new").id > old.id
    world.crash()
    number, _ = world.store.registry.draft_group("newcomers", 0)
    assert number > 1


@pytest.mark.parametrize("name", ["a", "A-1_%", "x" * NAME_LENGTH_MAX])
def test_good_names(name: str) -> None:
    assert valid_name(name)


@pytest.mark.parametrize(
    "name", ["", "a/b", "a.b", "a b", "a\0", "é", "x" * (NAME_LENGTH_MAX + 1)]
)
def test_bad_names(name: str) -> None:
    assert not valid_name(name)


def test_names_of_the_system_are_reserved() -> None:
    for name in [*SYSTEM_TOPICS, dead_letter_topic("readers")]:
        assert valid_name(name)
        assert reserved_name(name)
    assert not reserved_name("orders")
