"""What the store gives back: entries, pages of them, and changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from halfpast_api.metadata.access_settings import KeySettings, NamespaceSettings
from halfpast_api.metadata.endpoint_settings import EndpointSettings
from halfpast_api.metadata.settings import (
    AnySettings,
    GroupSettings,
    ProducerGroupSettings,
    TopicSettings,
)

S = TypeVar("S", bound=AnySettings)

Key = tuple[str, ...]  # (name,) of a topic or group, (scope, name) of a limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Generic[S]):
    """Settings as stored.

    `version` is the number, in the whole database, of the change that wrote
    them. So it only grows, and no two states of an entry ever share one, not
    even when it was deleted in between: that makes it a sound ETag.
    """

    key: Key
    settings: S
    version: int
    created_at_ms: int
    updated_at_ms: int

    @property
    def name(self) -> str:
        return self.key[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written(Generic[S]):
    """An entry after a put, and whether the put has created it."""

    entry: Entry[S]
    created: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """At most `limit` entries in the order of their keys, behind `after`."""

    after: Key | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[S]):
    """One page; `next_after` is the `after` of the next one, None at the end."""

    entries: tuple[Entry[S], ...]
    next_after: Key | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a reader has to apply to be at `version`; None stands for deleted.

    `is_full`: this is everything there is, so forget the rest.
    """

    version: int
    is_full: bool = False
    topics: Mapping[str, TopicSettings | None] = field(
        default_factory=dict[str, TopicSettings | None]
    )
    groups: Mapping[str, GroupSettings | None] = field(
        default_factory=dict[str, GroupSettings | None]
    )
    producer_groups: Mapping[str, ProducerGroupSettings | None] = field(
        default_factory=dict[str, ProducerGroupSettings | None]
    )
    endpoints: Mapping[str, EndpointSettings | None] = field(
        default_factory=dict[str, EndpointSettings | None]
    )
    limits: Mapping[tuple[str, str], float | None] = field(
        default_factory=dict[tuple[str, str], float | None]
    )
    keys: Mapping[str, KeySettings | None] = field(
        default_factory=dict[str, KeySettings | None]
    )
    namespaces: Mapping[str, NamespaceSettings | None] = field(
        default_factory=dict[str, NamespaceSettings | None]
    )

    def __bool__(self) -> bool:
        changed = (
            *(self.topics, self.groups, self.producer_groups, self.endpoints),
            *(self.limits, self.keys, self.namespaces),
        )
        return self.is_full or any(map(bool, changed))
