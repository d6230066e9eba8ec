"""What a rules file may say."""

from pathlib import Path
from typing import Any

import pytest

from halfpast_spark.job_errors import BadRules
from halfpast_spark.rules import DEFAULTS, Rules, parse_rules, read_rules
from halfpast_spark.sla import Sla


def test_without_a_file_nothing_may_be_wrong() -> None:
    rules = Rules()
    assert rules.of_run() == {"gaps": 0}
    assert rules.of_group("shop") == {
        "unbalanced": 0,
        "missing": 0,
        "leaked": 0,
        "duplicated_messages": 0,
    }
    assert set(rules.of_topic("orders")) == set(DEFAULTS) - {
        *rules.of_group(""),
        *rules.of_run(),
    }
    assert rules.sla.of("orders") == Sla(50, 0.999)


def test_groups_and_topics_have_bounds_of_their_own() -> None:
    rules = parse_rules(
        {
            "sla": {"*": "99 % within 1 s", "orders": "100 % within 20 ms"},
            "bounds": {"check_back_rate": 0.01, "lost": 1},
            "groups": {"shop": {"check_back_rate": 0.2, "missing": False}},
            "topics": {"news": {"lost": False, "sla": False}},
        }
    )
    assert rules.sla.of("orders") == Sla(20, 1)
    assert rules.sla.of("news") == Sla(1000, 0.99)
    assert rules.of_group("other")["check_back_rate"] == 0.01
    assert rules.of_group("shop")["check_back_rate"] == 0.2
    assert "missing" not in rules.of_group("shop")
    assert rules.of_topic("orders")["lost"] == 1
    assert not {"lost", "sla"} & set(rules.of_topic("news"))


def test_the_example_says_all_that_can_be_said(repository_root: Path) -> None:
    rules = read_rules(repository_root / "spark" / "rules.example.toml")
    assert set(rules.bounds) >= set(DEFAULTS)
    assert rules.of_group("billing")["check_back_rate"] == 0.2
    assert "parked" not in rules.of_group("billing")
    assert rules.of_topic("newsletter")["dead"] == 10
    assert rules.sla.of("invoices") == Sla(2000, 0.99)


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ({"limits": {}}, r"no section \[limits\]"),
        ({"bounds": 3}, "must be a section"),
        ({"bounds": {"speed": 3}}, "has no speed; it knows .*check_back_rate"),
        ({"bounds": {"lost": "none"}}, "lost must be a number"),
        ({"bounds": {"lost": -1}}, "lost must be a number"),
        ({"bounds": {"lost": True}}, "lost must be a number"),
        ({"groups": {"shop": {"lost": 1}}}, r"\[shop\] has no lost"),
        ({"topics": {"orders": {"check_back_rate": 1}}}, r"\[orders\] has no"),
        ({"topics": {"orders": 1}}, "must be a section"),
        ({"sla": {"orders": "quick"}}, "SLA of orders.*99.9 % within 50 ms"),
    ],
)
def test_what_makes_no_sense_is_refused(told: dict[str, Any], text: str) -> None:
    with pytest.raises(BadRules, match=text):
        parse_rules(told)


def test_a_file_that_cannot_be_read_is_told_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(BadRules, match=r"gone\.toml: No such file"):
        read_rules(tmp_path / "gone.toml")
    (tmp_path / "bad.toml").write_text("[sla\n")
    with pytest.raises(BadRules, match=r"bad\.toml: this is not TOML"):
        read_rules(tmp_path / "bad.toml")
