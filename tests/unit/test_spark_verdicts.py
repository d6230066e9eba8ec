"""Which rules do not hold, and how that is said."""

from collections import Counter

from halfpast_spark.rules import Rules, parse_rules
from halfpast_spark.summaries import Summaries, Summary
from halfpast_spark.verdicts import broken_rules


def group(name: str, topic: str = "*", **counts: int) -> Summary:
    return Summary((name, topic), Counter(counts))


def topic(name: str, **counts: int) -> Summary:
    found = Summary((name,), Counter(counts))
    found.sla_ms, found.sla_share = 50, 0.999
    return found


def told(
    rules: Rules,
    *,
    groups: list[Summary] | None = None,
    topics: list[Summary] | None = None,
) -> list[str]:
    found = Summaries(groups or [], topics or [], [])
    return [str(it) for it in broken_rules(found, rules)]


def test_nothing_breaks_nothing() -> None:
    assert told(Rules()) == []
    assert told(Rules(), groups=[group("shop")], topics=[topic("orders")]) == []


def test_a_rate_over_its_bound() -> None:
    rules = parse_rules({"bounds": {"check_back_rate": 0.1}})
    at, over = (
        group("at", half=10, checked_back=1),
        group("over", half=1000, checked_back=101),
    )
    assert told(rules, groups=[at, over]) == [
        "producer group over: check_back_rate is 10.1000%, allowed are 10.0000%"
    ]


def test_books_that_do_not_balance() -> None:
    found = group("shop", half=9, unbalanced=2, missing=1, duplicated=3)
    assert told(Rules(), groups=[found]) == [
        "producer group shop: unbalanced is 2, allowed are 0",
        "producer group shop: missing is 1, allowed are 0",
        "producer group shop: duplicated_messages is 3, allowed are 0",
    ]


def test_a_group_is_judged_over_all_its_topics() -> None:
    assert told(Rules(), groups=[group("shop", "orders", unbalanced=2)]) == []


def test_an_sla_that_is_missed() -> None:
    met = topic("met", judged=1000, in_sla=999)
    missed = topic("missed", judged=1000, in_sla=998)
    assert told(Rules(), topics=[met, missed]) == [
        "topic missed: only 99.8000% in time, the SLA is 99.9000%"
    ]
    lenient = parse_rules({"topics": {"missed": {"sla": False}}})
    assert told(lenient, topics=[missed]) == []


def test_messages_that_are_lost() -> None:
    assert told(Rules(), topics=[topic("orders", lost=2), topic("*", lost=2)]) == [
        "topic orders: lost is 2, allowed are 0"
    ]


def test_what_could_not_be_seen_breaks_a_rule_too() -> None:
    nothing = Summaries([], [], [])
    [broken] = broken_rules(nothing, Rules(), gaps=2)
    assert "could not see 2 places of the log" in str(broken)
    allowed = parse_rules({"bounds": {"gaps": 2}})
    assert broken_rules(nothing, allowed, gaps=2) == []
