"""Whether the rules hold: what `audit check` tells, and its exit status is made of."""

from collections.abc import Iterator
from dataclasses import dataclass

from .result_tables import ALL_TOPICS
from .rules import Rules
from .summaries import Summaries, Summary

COUNTED_AS = {"duplicated_messages": "duplicated"}
RATES = {
    "check_back_rate": ("checked_back", "half"),
    "second_phase_lost_rate": ("second_phase_lost", "half"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A rule that does not hold. `kind`: group, topic or run; `value` is beyond
    `bound`."""

    kind: str
    name: str
    rule: str
    value: float
    bound: float

    def __str__(self) -> str:
        if self.rule == "gaps":
            return (
                f"the last run could not see {self.value:g} places of the log, allowed"
                f" are {self.bound:g}"
            )
        if self.kind == "run":
            value_s, bound_s = self.value / 1000, self.bound / 1000
            return (
                f"the last run saw nothing of the last {value_s:.0f} s, allowed are"
                + (f" {bound_s:g} s")
            )
        where = "producer group" if self.kind == "group" else "topic"
        if self.rule == "sla":
            said = f"only {self.value:.4%} in time, the SLA is {self.bound:.4%}"
        elif self.rule in RATES:
            said = f"{self.rule} is {self.value:.4%}, allowed are {self.bound:.4%}"
        else:
            said = f"{self.rule} is {self.value:g}, allowed are {self.bound:g}"
        return f"{where} {self.name}: {said}"


def broken_rules(found: Summaries, rules: Rules, *, gaps: int = 0) -> list[Broken]:
    """All rules that do not hold: of the run, of groups, of topics. Nothing at all
    breaks nothing. `gaps`: how many places of the log could not be read."""
    broken: list[Broken] = []
    for rule, bound in rules.of_run().items():
        if gaps > bound:
            broken.append(
                Broken(kind="run", name="", rule=rule, value=gaps, bound=bound)
            )
    for summary in found.transactions:
        group, topic = summary.key
        if topic == ALL_TOPICS:
            broken += _of_group(group, summary, rules)
    for summary in found.on_time:
        (topic,) = summary.key
        if topic != ALL_TOPICS:
            broken += _of_topic(topic, summary, rules)
    return broken


def _of_group(group: str, summary: Summary, rules: Rules) -> Iterator[Broken]:
    for rule, bound in rules.of_group(group).items():
        if rule in RATES:
            value = summary.rate(*RATES[rule]) or 0.0
        else:
            value = summary.counts[COUNTED_AS.get(rule, rule)]
        if value > bound:
            yield Broken(kind="group", name=group, rule=rule, value=value, bound=bound)


def _of_topic(topic: str, summary: Summary, rules: Rules) -> Iterator[Broken]:
    for rule, bound in rules.of_topic(topic).items():
        if rule == "sla":
            attained = summary.rate("in_sla", "judged")
            share = summary.sla_share
            if attained is not None and share is not None and attained < share:
                yield Broken(
                    kind="topic", name=topic, rule=rule, value=attained, bound=share
                )
        elif summary.counts[rule] > bound:
            value = summary.counts[rule]
            yield Broken(kind="topic", name=topic, rule=rule, value=value, bound=bound)
