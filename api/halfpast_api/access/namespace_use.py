"""Whether anything is in a namespace, or would be, if there were one of that name."""

from halfpast_api.access.key_store import KeyStore
from halfpast_api.metadata.entry import Page
from halfpast_api.metadata.settings_store import SettingsStore
from halfpast_core_store.broker import Broker, ListGroups, ListTopics
from halfpast_txn.transactions import (
    ListTransactions,
    Transactions,
    TransactionState,
)


class NamespaceUse:
    """Looks at names as the store has them."""

    def __init__(
        self,
        broker: Broker,
        transactions: Transactions,
        metadata: SettingsStore,
        keys: KeyStore,
    ) -> None:
        self._broker = broker
        self._transactions = transactions
        self._metadata = metadata
        self._keys = keys

    async def found(self, namespace: str) -> str:
        """What is there, in words; empty if nothing is."""
        prefix = f"{namespace}%"
        topics = (await self._broker.list_topics(ListTopics(prefix, 1))).topics
        if topics and topics[0].name.startswith(prefix):
            return f"the topic {topics[0].name[len(prefix) :]!r}"
        groups = (await self._broker.list_groups(ListGroups(prefix, 1))).names
        if groups and groups[0].startswith(prefix):
            return f"the group {groups[0][len(prefix) :]!r}"
        page = Page(after=(prefix,), limit=1)
        for what, read in (
            ("topic", self._metadata.topics),
            ("group", self._metadata.groups),
            ("producer group", self._metadata.producer_groups),
            ("endpoint", self._metadata.endpoints),
        ):
            for entry in (await read(page)).entries:
                if entry.name.startswith(prefix):
                    return f"settings of the {what} {entry.name[len(prefix) :]!r}"
        for state in (TransactionState.PREPARED, TransactionState.PARKED):
            listed = await self._transactions.list(
                ListTransactions(state, limit=1, namespace=namespace)
            )
            if listed.transactions:
                return "an open transaction"
        return ""

    async def keys_found(self, namespace: str) -> str:
        """The same for keys that are bound to it."""
        return "a key" if await self._keys.has_keys_in(namespace) else ""
