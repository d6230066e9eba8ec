"""Where the transaction service learns of producer groups: out of the cache."""

from collections.abc import Callable, Container
from typing import Protocol

from halfpast_api.access.namespaced_names import split_name
from halfpast_api.metadata.settings import ProducerGroupSettings
from halfpast_txn.producer_group import CheckEndpoint


class ProducerGroupCache(Protocol):
    """What is needed of a `MetadataCache`."""

    def producer_group_settings(self, name: str) -> ProducerGroupSettings: ...


class CheckEndpoints:
    """The `ProducerGroups` of the transaction service."""

    def __init__(
        self,
        cache: ProducerGroupCache,
        namespaces: Callable[[], Container[str]] = frozenset,
    ) -> None:
        self._cache = cache
        self._namespaces = namespaces

    def check_endpoint(self, group: str) -> CheckEndpoint | None:
        """Where to ask the group; None if its producers ask for checks themselves."""
        settings = self._cache.producer_group_settings(group)
        if not settings.check_url:
            return None
        namespace, _ = split_name(group)
        return CheckEndpoint(
            url=settings.check_url,
            secrets=settings.check_secrets,
            timeout_ms=settings.check_timeout_ms,
            concurrency_max=settings.check_concurrency_max,
            namespace=namespace if namespace in self._namespaces() else "",
        )
