"""The handlers of each namespace, made when they are first needed.

They keep nothing but caches, so those of namespaces that were not used for longest may
go when there are many.
"""

from collections.abc import Callable, Iterable
from typing import Final

from halfpast_api.access.namespaced_broker import NamespacedBroker
from halfpast_api.access.namespaced_delay import NamespacedDelay
from halfpast_api.access.namespaced_metadata import (
    NamespacedMetadata,
    NamespacedSettings,
)
from halfpast_api.access.namespaced_names import DEFAULT, Names
from halfpast_api.access.namespaced_transactions import NamespacedTransactions
from halfpast_api.access.owned_topics import OwnedTopics
from halfpast_api.access.space import Space
from halfpast_api.config import ApiConfig
from halfpast_api.metadata.cache import MetadataCache
from halfpast_api.metadata.settings_store import SettingsStore
from halfpast_api.router import Route, Router
from halfpast_api.topic_directory import TopicDirectory
from halfpast_chronos.delay_server import DelayServer
from halfpast_core_store.broker import Broker
from halfpast_txn.transactions import Transactions

_COUNT_MAX: Final = 256

Table = Callable[[Space], Iterable[Route]]


class Spaces:
    """All namespaces of one process."""

    def __init__(
        self,
        broker: Broker,
        delay: DelayServer,
        transactions: Transactions,
        metadata: SettingsStore,
        cache: MetadataCache,
        config: ApiConfig,
        table: Table,
    ) -> None:
        self._table = table
        self._broker = broker
        self._delay = delay
        self._transactions = transactions
        self._metadata = metadata
        self._cache = cache
        self._config = config
        self._kept: dict[str, tuple[Space, Router]] = {}

    def of(self, namespace: str) -> Router:
        """The routes with the handlers of this namespace."""
        return self._keep(namespace)[1]

    def space(self, namespace: str) -> Space:
        """The services that those handlers work with."""
        return self._keep(namespace)[0]

    def _keep(self, namespace: str) -> tuple[Space, Router]:
        kept = self._kept.get(namespace)
        if kept is None:
            if len(self._kept) >= _COUNT_MAX:
                self._kept.pop(next(it for it in self._kept if it != DEFAULT))
            space = self._made(namespace)
            kept = self._kept[namespace] = space, Router(self._table(space))
        elif namespace != DEFAULT:  # the last one used is the last one to go
            self._kept[namespace] = self._kept.pop(namespace)
        return kept

    def _made(self, namespace: str) -> Space:
        """The services as this namespace sees them."""
        names = Names(namespace, self._cache.namespaces)
        owned = OwnedTopics(self._broker, names, lambda: bool(self._cache.namespaces()))
        broker = NamespacedBroker(self._broker, names, owned)
        settings = NamespacedSettings(self._cache, names)
        return Space(
            namespace=namespace,
            broker=broker,
            delay=NamespacedDelay(self._delay, owned),
            transactions=NamespacedTransactions(self._transactions, names),
            metadata=NamespacedMetadata(self._metadata, names),
            settings=settings,
            directory=TopicDirectory(broker, settings, self._config),
            names=names,
            owned=owned,
        )
