"""What handlers need of a metadata store: a part of `MetadataStore`."""

from typing import Protocol

from halfpast_api.metadata.endpoint_settings import EndpointSettings
from halfpast_api.metadata.entry import Entry, Listing, Page, Written
from halfpast_api.metadata.settings import (
    GroupSettings,
    ProducerGroupSettings,
    TopicSettings,
)


class SettingsStore(Protocol):
    """Settings by name; what each call promises is said at `MetadataStore`."""

    async def topic(self, name: str) -> Entry[TopicSettings] | None: ...

    async def topics(self, page: Page | None = None) -> Listing[TopicSettings]: ...

    async def put_topic(
        self, name: str, settings: TopicSettings, *, expected: int | None = None
    ) -> Written[TopicSettings]: ...

    async def group(self, name: str) -> Entry[GroupSettings] | None: ...

    async def groups(self, page: Page | None = None) -> Listing[GroupSettings]: ...

    async def put_group(
        self, name: str, settings: GroupSettings, *, expected: int | None = None
    ) -> Written[GroupSettings]: ...

    async def producer_group(
        self, name: str
    ) -> Entry[ProducerGroupSettings] | None: ...

    async def producer_groups(
        self, page: Page | None = None
    ) -> Listing[ProducerGroupSettings]: ...

    async def put_producer_group(
        self,
        name: str,
        settings: ProducerGroupSettings,
        *,
        expected: int | None = None,
    ) -> Written[ProducerGroupSettings]: ...

    async def delete_producer_group(
        self, name: str, *, expected: int | None = None
    ) -> bool: ...

    async def endpoint(self, name: str) -> Entry[EndpointSettings] | None: ...

    async def endpoints(
        self, page: Page | None = None
    ) -> Listing[EndpointSettings]: ...

    async def put_endpoint(
        self, name: str, settings: EndpointSettings, *, expected: int | None = None
    ) -> Written[EndpointSettings]: ...

    async def delete_endpoint(
        self, name: str, *, expected: int | None = None
    ) -> bool: ...
