"""The handlers of one namespace, with their routes.

Everything that a handler works with comes from the `Space`, which holds nothing of
other namespaces. `Surroundings` are what all namespaces of a process share.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import uuid_utils

from halfpast_api import routes
from halfpast_api.access.access_routes import AccessHandlers, access_routes
from halfpast_api.access.space import Space
from halfpast_api.batch import BatchHandlers
from halfpast_api.config import ApiConfig
from halfpast_api.console.site import Site
from halfpast_api.consume import ConsumeHandlers
from halfpast_api.delay.bulk import BulkHandlers
from halfpast_api.delay.dead_letters import DeadLetterHandlers
from halfpast_api.delay.due import DueHandlers
from halfpast_api.delay.pending_quota import PendingQuotas
from halfpast_api.delay.schedules import ScheduleHandlers
from halfpast_api.events import EventHandlers
from halfpast_api.group_admin import GroupAdminHandlers
from halfpast_api.health import HealthHandlers
from halfpast_api.long_poll import LongPolls
from halfpast_api.metadata.store import MetadataStore
from halfpast_api.openapi.handlers import DescriptionHandlers
from halfpast_api.publish import PublishHandlers, Source
from halfpast_api.pull import PullHandlers
from halfpast_api.push.attempt_pages import AttemptHandlers
from halfpast_api.push.dead_letters import DeadLetterPages
from halfpast_api.push.endpoint_tests import EndpointTestHandlers
from halfpast_api.push.endpoints import EndpointHandlers, EndpointParts
from halfpast_api.push.operations import OperationHandlers
from halfpast_api.push.push_server import PushServer
from halfpast_api.router import Route
from halfpast_api.topic_admin import TopicAdminHandlers
from halfpast_api.transactions.batch import BeginBatchHandlers
from halfpast_api.transactions.begin import BeginHandlers
from halfpast_api.transactions.checks import CheckHandlers
from halfpast_api.transactions.listing import ListingHandlers
from halfpast_api.transactions.outcomes import OutcomeHandlers
from halfpast_api.transactions.producer_groups import ProducerGroupHandlers
from halfpast_txn.address_rules import AllowList

_SOURCE: Final = Source(lambda: uuid_utils.uuid7().bytes, time.time_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the handlers of all namespaces share."""

    config: ApiConfig
    polls: LongPolls
    site: Site
    health: HealthHandlers
    description: DescriptionHandlers
    push: PushServer | None
    rows: MetadataStore
    access: AccessHandlers


def route_table(space: Space, around: Surroundings) -> Iterable[Route]:
    """All routes, answered for one namespace."""
    table = [
        *_event_routes(space, around),
        *_schedule_routes(space, around),
        *_transaction_routes(space, around),
        *_admin_routes(space, around),
        *_endpoint_routes(space, around),
        *around.site.routes(space, around.config.bodies, around.access.sessions),
        *routes.health_routes(around.health, metrics_open=around.config.metrics_open),
        *routes.description_routes(around.description),
        *access_routes(around.access, around.config.bodies),
    ]
    around.description.know(table)
    return table


def _event_routes(space: Space, around: Surroundings) -> Iterable[Route]:
    broker, delay, directory = space.broker, space.delay, space.directory
    limits = around.config.bodies
    depth_max = limits.depth_max
    quotas = PendingQuotas(delay)
    yield from routes.publish_routes(
        PublishHandlers(broker, delay, directory, _SOURCE, depth_max, quotas),
        BatchHandlers(broker, directory, _SOURCE, limits, quotas),
        limits,
    )
    yield from routes.event_routes(
        EventHandlers(
            broker,
            delay,
            space.transactions,
            directory,
            space.settings,
            depth_max=depth_max,
        ),
        limits,
    )
    yield from routes.consume_routes(
        ConsumeHandlers(broker, directory, space.settings, around.polls),
        PullHandlers(broker, directory, around.polls),
        limits,
    )


def _schedule_routes(space: Space, around: Surroundings) -> Iterable[Route]:
    delay, directory, limits = space.delay, space.directory, around.config.bodies
    bulk = BulkHandlers(delay, directory, space.settings, _SOURCE)
    yield from routes.bulk_routes(
        bulk,
        OperationHandlers(space.namespace, bulk, around.rows, _now_ms),
        DueHandlers(delay, directory),
        limits,
    )
    yield from routes.dead_letter_routes(
        DeadLetterPages(
            space.namespace,
            space.broker,
            DeadLetterHandlers(delay, directory),
            around.rows,
            _SOURCE,
        ),
        limits,
    )
    yield from routes.schedule_routes(
        ScheduleHandlers(delay, directory, _SOURCE, limits.depth_max), limits
    )


def _transaction_routes(space: Space, around: Surroundings) -> Iterable[Route]:
    broker, transactions = space.broker, space.transactions
    directory, settings = space.directory, space.settings
    limits, bodies = around.config.transactions, around.config.bodies
    yield from routes.transaction_routes(
        BeginHandlers(
            broker,
            transactions,
            directory,
            settings,
            _SOURCE,
            limits,
            bodies,
            space.names,
        ),
        BeginBatchHandlers(
            broker, directory, settings, _SOURCE, limits, bodies, space.names
        ),
        OutcomeHandlers(transactions),
        ListingHandlers(transactions, directory),
        CheckHandlers(transactions, around.polls),
        bodies,
    )


def _admin_routes(space: Space, around: Surroundings) -> Iterable[Route]:
    limits = around.config.bodies
    yield from routes.admin_routes(
        TopicAdminHandlers(
            space.broker, space.metadata, space.settings, space.directory, space.delay
        ),
        GroupAdminHandlers(space.broker, space.metadata, space.settings),
        limits,
    )
    allow_list = AllowList.parse(around.config.check_allow)
    yield from routes.producer_group_routes(
        ProducerGroupHandlers(space.metadata, allow_list), limits
    )


def _endpoint_routes(space: Space, around: Surroundings) -> Iterable[Route]:
    parts = EndpointParts(
        namespace=space.namespace,
        broker=space.broker,
        directory=space.directory,
        metadata=space.metadata,
        push=around.push,
        allow=AllowList.parse(around.config.push_allow),
    )
    yield from routes.endpoint_routes(
        EndpointHandlers(parts),
        EndpointTestHandlers(parts),
        AttemptHandlers(space.namespace, space.metadata, around.rows),
        around.config.bodies,
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
