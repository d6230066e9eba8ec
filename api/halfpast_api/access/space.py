"""What the handlers of one namespace work with."""

from dataclasses import dataclass
from typing import Protocol

from halfpast_api.access.namespaced_names import Names
from halfpast_api.access.owned_topics import OwnedTopics
from halfpast_api.metadata.settings_store import SettingsStore
from halfpast_api.topic_directory import Settings, TopicDirectory
from halfpast_api.transactions.draft import ProducerGroupSource
from halfpast_chronos.delay_server import DelayServer
from halfpast_core_store.broker import Broker
from halfpast_txn.transactions import Transactions


class SpaceSettings(Settings, ProducerGroupSource, Protocol):
    """Settings in memory, by the names of the namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The services as one namespace sees them: names without a prefix, and nothing
    of what is another's. Whoever works with these alone cannot reach further."""

    namespace: str
    broker: Broker
    delay: DelayServer
    transactions: Transactions
    metadata: SettingsStore
    settings: SpaceSettings
    directory: TopicDirectory
    names: Names
    owned: OwnedTopics
