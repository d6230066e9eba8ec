"""What a caller may do, in words; each route has one of them."""

from enum import StrEnum
from typing import Final


class Verb(StrEnum):
    """What a route does, and so what its caller must be allowed.

    `PUBLISH` brings events and transactions in, with their outcomes. `SCHEDULE`
    changes what is scheduled, one event or one recurring schedule at a time.
    `CONSUME` takes messages out. `READ` looks. `MANAGE` changes settings and many
    things at once. `ADMIN` is about keys, namespaces and the trail. `OPEN` asks
    nobody who they are.
    """

    OPEN = "open"
    PUBLISH = "publish"
    SCHEDULE = "schedule"
    CONSUME = "consume"
    READ = "read"
    MANAGE = "manage"
    ADMIN = "admin"


class Reach(StrEnum):
    """How much a route is about, and so for how much its verb must be allowed.

    `TOPIC`: the topic in its path. `CHECKED`: topics that the handler finds in the
    body or by id; it asks `call.check_topic`, and the dispatcher only whether the
    verb is allowed for any topic. `NAMESPACE`: more than one topic, so the verb must
    be allowed for all. `SUITE`: more than one namespace. `CALLER`: the caller alone,
    who must be known and needs no scope.
    """

    TOPIC = "topic"
    CHECKED = "checked"
    NAMESPACE = "namespace"
    SUITE = "suite"
    CALLER = "caller"


SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def default_verb(method: str) -> Verb:
    """For a route that names none: the stricter of what it may be."""
    return Verb.READ if method in SAFE_METHODS else Verb.MANAGE


def default_reach(template: str) -> Reach:
    """For a route that names none."""
    return Reach.TOPIC if "{topic}" in template else Reach.NAMESPACE
