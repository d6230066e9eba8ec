"""What must hold: the rules of `audit check`, and the SLAs of `audit run`.

    [sla]                       # how late delayed messages may be
    "*" = "99.9 % within 50 ms" # all topics but those named here
    orders = "99.99 % within 20 ms"

    [bounds]                    # for every group and topic
    check_back_rate = 0.01      # part of the transactions that are checked back
    lost = 0
    sla = true                  # each topic's SLA must be met
    gaps = 0                    # places of the log that could not be read

    [groups.shop]               # other bounds for this producer group
    check_back_rate = 0.2

    [topics.newsletter]         # and for this topic
    lost = 3

A bound is the most that is allowed; one that is not given is as in DEFAULTS; `false`
takes it away. What is told by topic is judged by topic, the rest by group.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from .job_errors import BadRules, BadSla
from .sla import Sla, SlaRules, parse_sla

Bounds = Mapping[str, float]

GROUP_BOUNDS = (
    "check_back_rate",
    "second_phase_lost_rate",
    "unbalanced",
    "missing",
    "leaked",
    "duplicated_messages",
    "parked",
    "open",
)
RUN_BOUNDS = ("gaps",)
TOPIC_BOUNDS = ("lost", "early", "duplicated", "fired_anyway", "dead", "sla")
DEFAULTS: Bounds = {
    "unbalanced": 0,
    "missing": 0,
    "leaked": 0,
    "duplicated_messages": 0,
    "lost": 0,
    "early": 0,
    "duplicated": 0,
    "fired_anyway": 0,
    "sla": 0,
    "gaps": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All rules, as a file gives them or as they are without one."""

    sla: SlaRules = field(default_factory=SlaRules)
    bounds: Bounds = field(default_factory=lambda: DEFAULTS)
    groups: Mapping[str, Bounds] = field(default_factory=lambda: {})
    topics: Mapping[str, Bounds] = field(default_factory=lambda: {})

    def of_run(self) -> Bounds:
        return self._of({}, RUN_BOUNDS)

    def of_group(self, group: str) -> Bounds:
        return self._of(self.groups.get(group, {}), GROUP_BOUNDS)

    def of_topic(self, topic: str) -> Bounds:
        return self._of(self.topics.get(topic, {}), TOPIC_BOUNDS)

    def _of(self, own: Bounds, names: tuple[str, ...]) -> Bounds:
        known = {**self.bounds, **own}
        return {name: known[name] for name in names if known.get(name, -1) >= 0}


def read_rules(path: Path) -> Rules:
    """Raises BadRules."""
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRules(str(path), error.strerror or str(error)) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadRules(str(path), f"this is not TOML: {error}") from error
    return parse_rules(told, str(path))


def parse_rules(told: Mapping[str, Any], path: str = "rules") -> Rules:
    """The same from a file that has been read. Raises BadRules."""
    strange = sorted(set(told) - {"sla", "bounds", "groups", "topics"})
    if strange:
        raise BadRules(path, f"there is no section [{strange[0]}]")
    every = _bounds(path, "bounds", told, RUN_BOUNDS + GROUP_BOUNDS + TOPIC_BOUNDS)
    return Rules(
        sla=_slas(path, _section(path, "sla", told)),
        bounds={**DEFAULTS, **every},
        groups={
            name: _bounds(path, name, _section(path, "groups", told), GROUP_BOUNDS)
            for name in _section(path, "groups", told)
        },
        topics={
            name: _bounds(path, name, _section(path, "topics", told), TOPIC_BOUNDS)
            for name in _section(path, "topics", told)
        },
    )


def _section(path: str, name: str, told: Mapping[str, Any]) -> Mapping[str, Any]:
    section = told.get(name, {})
    if not isinstance(section, dict):
        raise BadRules(path, f"{name} must be a section: [{name}]")
    return cast(Mapping[str, Any], section)


def _slas(path: str, told: Mapping[str, Any]) -> SlaRules:
    slas: dict[str, Sla] = {}
    for topic, text in told.items():
        try:
            slas[topic] = parse_sla(str(text))
        except BadSla as error:
            raise BadRules(path, f"the SLA of {topic}: {error}") from error
    default = slas.pop("*", SlaRules().default)
    return SlaRules(default, slas)


def _bounds(
    path: str, name: str, told: Mapping[str, Any], known: tuple[str, ...]
) -> Bounds:
    """Numbers by name; `false` is -1 (no bound), `sla = true` is 0."""
    found: dict[str, float] = {}
    for bound, value in _section(path, name, told).items():
        if bound not in known:
            raise BadRules(
                path, f"[{name}] has no {bound}; it knows {', '.join(known)}"
            )
        if value is False:
            found[bound] = -1
        elif bound == "sla" and value is True:
            found[bound] = 0
        elif isinstance(value, int | float) and value is not True and value >= 0:
            found[bound] = value
        else:
            raise BadRules(
                path, f"[{name}] {bound} must be a number from 0 on, or false"
            )
    return found
