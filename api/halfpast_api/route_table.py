"""The handlers of one namespace, with their routes.

Everything that a handler works with comes from the `Space`, which holds nothing of
other namespaces. `Surroundings` are what all namespaces of a process share.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import uuid_utils

from halfpast_api import routes
from halfpast_api.access.access_routes import AccessHandlers, access_routes
from halfpast_api.access.space import Space
from halfpast_api.batch import BatchHandlers
from halfpast_api.clock.clock_handlers import ClockHandlers
from halfpast_api.clock.clock_routes import clock_routes
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
from halfpast_api.limits.limit_handlers import LimitHandlers
from halfpast_api.limits.limit_routes import limit_routes
from halfpast_api.limits.limiter import Limiter
from halfpast_api.limits.own_limits import OwnLimitsHandlers
from halfpast_api.limits.pending_count import PendingCount
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the handlers of all namespaces share. `now_ns` is the wall clock's."""

    config: ApiConfig
    polls: LongPolls
    site: Site
    health: HealthHandlers
    description: DescriptionHandlers
    push: PushServer | None
    rows: MetadataStore
    access: AccessHandlers
    limits: LimitHandlers
    limiter: Limiter
    clock: ClockHandlers
    now_ns: Callable[[], int]

    @property
    def source(self) -> Source:
        """Where ids and times of acceptance come from."""
        return Source(lambda: uuid_utils.uuid7().bytes, self.now_ns)

    def now_ms(self) -> int:
        return self.now_ns() // 1_000_000


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
        *clock_routes(around.clock, around.config.bodies),
    ]
    around.description.know(table)
    return table


def _event_routes(space: Space, around: Surroundings) -> Iterable[Route]:
    broker, delay, directory = space.broker, space.delay, space.directory
    limits = around.config.bodies
    depth_max = limits.depth_max
    pending = PendingCount(delay, space.owned)
    quotas = PendingQuotas(delay, pending)
    yield from limit_routes(
        around.limits, OwnLimitsHandlers(around.limiter, pending, around.config), limits
    )
    yield from routes.publish_routes(
        PublishHandlers(broker, delay, directory, around.source, depth_max, quotas),
        BatchHandlers(broker, directory, around.source, limits, quotas),
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
            now_ns=around.now_ns,
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
    bulk = BulkHandlers(delay, directory, space.settings, around.source)
    yield from routes.bulk_routes(
        bulk,
        OperationHandlers(space.namespace, bulk, around.rows, around.now_ms),
        DueHandlers(delay, directory, around.now_ns),
        limits,
    )
    yield from routes.dead_letter_routes(
        DeadLetterPages(
            space.namespace,
            space.broker,
            DeadLetterHandlers(delay, directory),
            around.rows,
            around.source,
        ),
        limits,
    )
    yield from routes.schedule_routes(
        ScheduleHandlers(delay, directory, around.source, limits.depth_max), limits
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
            around.source,
            limits,
            bodies,
            space.names,
        ),
        BeginBatchHandlers(
            broker, directory, settings, around.source, limits, bodies, space.names
        ),
        OutcomeHandlers(transactions),
        ListingHandlers(transactions, directory, around.now_ns),
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
