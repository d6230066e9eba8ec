"""All routes of the API, with how large a body each takes."""

from collections.abc import Iterable

from halfpast_api.access.verbs import Reach, Verb
from halfpast_api.batch import BatchHandlers
from halfpast_api.config import BodyLimits
from halfpast_api.consume import ConsumeHandlers
from halfpast_api.delay.bulk import BulkHandlers
from halfpast_api.delay.due import DueHandlers
from halfpast_api.delay.schedules import ScheduleHandlers
from halfpast_api.events import EventHandlers
from halfpast_api.group_admin import GroupAdminHandlers
from halfpast_api.health import HealthHandlers
from halfpast_api.openapi.handlers import DescriptionHandlers
from halfpast_api.publish import PublishHandlers
from halfpast_api.pull import PullHandlers
from halfpast_api.push.attempt_pages import AttemptHandlers
from halfpast_api.push.dead_letters import DeadLetterPages
from halfpast_api.push.endpoint_tests import EndpointTestHandlers
from halfpast_api.push.endpoints import EndpointHandlers
from halfpast_api.push.operations import OperationHandlers
from halfpast_api.router import Route
from halfpast_api.topic_admin import TopicAdminHandlers
from halfpast_api.transactions.batch import BeginBatchHandlers
from halfpast_api.transactions.begin import BeginHandlers
from halfpast_api.transactions.checks import CheckHandlers
from halfpast_api.transactions.listing import ListingHandlers
from halfpast_api.transactions.outcomes import OutcomeHandlers
from halfpast_api.transactions.producer_groups import ProducerGroupHandlers

PUBLISH, SCHEDULE, CONSUME = Verb.PUBLISH, Verb.SCHEDULE, Verb.CONSUME
CHECKED = Reach.CHECKED


def publish_routes(
    single: PublishHandlers, batch: BatchHandlers, limits: BodyLimits
) -> Iterable[Route]:
    """Events come in."""
    events = "/v1/topics/{topic}/events"
    yield Route("POST", events, single.publish, limits.single_max, verb=PUBLISH)
    yield Route("PUT", events + "/{key}", single.put, limits.single_max, verb=PUBLISH)
    yield Route(
        "POST",
        "/v1/events:batch",
        batch.publish,
        limits.batch_max,
        verb=PUBLISH,
        reach=CHECKED,
    )


def event_routes(handlers: EventHandlers, limits: BodyLimits) -> Iterable[Route]:
    """Events are looked at and changed."""
    event = "/v1/events/{id}"
    yield Route("GET", "/v1/events", handlers.list, reach=CHECKED)
    yield Route("GET", event, handlers.get, reach=CHECKED)
    yield Route(
        "PATCH",
        event,
        handlers.reschedule,
        limits.admin_max,
        verb=SCHEDULE,
        reach=CHECKED,
    )
    yield Route("DELETE", event, handlers.cancel, verb=SCHEDULE, reach=CHECKED)
    yield Route(
        "POST",
        event + ":deliver-now",
        handlers.deliver_now,
        verb=SCHEDULE,
        reach=CHECKED,
    )
    yield Route("POST", event + ":redrive", handlers.redrive, reach=CHECKED)


def consume_routes(
    groups: ConsumeHandlers, queues: PullHandlers, limits: BodyLimits
) -> Iterable[Route]:
    """Messages go out."""
    group = "/v1/groups/{group}"
    messages = "/v1/topics/{topic}/queues/{queue}/messages"
    yield Route(
        "POST",
        group + ":pop",
        groups.pop,
        limits.admin_max,
        verb=CONSUME,
        reach=CHECKED,
    )
    yield Route(
        "POST",
        group + ":ack",
        groups.ack,
        limits.receipts_max,
        verb=CONSUME,
        reach=CHECKED,
    )
    yield Route(
        "POST",
        group + ":nack",
        groups.nack,
        limits.receipts_max,
        verb=CONSUME,
        reach=CHECKED,
    )
    yield Route(
        "POST",
        group + ":extend",
        groups.extend,
        limits.receipts_max,
        verb=CONSUME,
        reach=CHECKED,
    )
    yield Route("GET", messages, queues.pull, verb=CONSUME)


def admin_routes(
    topics: TopicAdminHandlers, groups: GroupAdminHandlers, limits: BodyLimits
) -> Iterable[Route]:
    """Topics and groups are administered."""
    topic, group = "/v1/topics/{topic}", "/v1/groups/{group}"
    yield Route("GET", "/v1/topics", topics.list, reach=CHECKED)
    yield Route("POST", "/v1/topics", topics.create, limits.admin_max, reach=CHECKED)
    yield Route("GET", topic, topics.get)
    yield Route("PUT", topic, topics.put, limits.admin_max)
    yield Route("PATCH", topic, topics.patch, limits.admin_max)
    yield Route("GET", "/v1/groups", groups.list)
    yield Route("GET", group, groups.get)
    yield Route("PUT", group, groups.put, limits.admin_max)
    yield Route("GET", group + "/lag", groups.lag, reach=CHECKED)
    yield Route(
        "PUT", group + "/offsets", groups.put_offsets, limits.admin_max, reach=CHECKED
    )


def producer_group_routes(
    handlers: ProducerGroupHandlers, limits: BodyLimits
) -> Iterable[Route]:
    """Producer groups are administered."""
    group = "/v1/producer-groups/{group}"
    yield Route("GET", "/v1/producer-groups", handlers.list)
    yield Route("GET", group, handlers.get)
    yield Route("PUT", group, handlers.put, limits.admin_max)
    yield Route("DELETE", group, handlers.delete)


def transaction_routes(
    begin: BeginHandlers,
    batch: BeginBatchHandlers,
    outcomes: OutcomeHandlers,
    listing: ListingHandlers,
    checks: CheckHandlers,
    limits: BodyLimits,
) -> Iterable[Route]:
    """Transactions begin, end, and are looked after."""
    transactions = "/v1/transactions"
    one = transactions + "/{id}"
    some_checks = "/v1/producer-groups/{group}/checks"
    yield Route(
        "POST", transactions, begin.begin, limits.batch_max, verb=PUBLISH, reach=CHECKED
    )
    yield Route(
        "POST",
        transactions + ":batch",
        batch.begin,
        limits.batch_max,
        verb=PUBLISH,
        reach=CHECKED,
    )
    yield Route(
        "POST", one + ":add", begin.add, limits.batch_max, verb=PUBLISH, reach=CHECKED
    )
    yield Route(
        "POST",
        one + ":commit",
        outcomes.commit,
        limits.admin_max,
        verb=PUBLISH,
        reach=CHECKED,
    )
    yield Route(
        "POST",
        one + ":rollback",
        outcomes.roll_back,
        limits.admin_max,
        verb=PUBLISH,
        reach=CHECKED,
    )
    yield Route(
        "POST",
        transactions + ":end",
        outcomes.end_all,
        limits.receipts_max,
        verb=PUBLISH,
        reach=CHECKED,
    )
    yield Route("GET", transactions, listing.list)
    yield Route("GET", one, listing.get, reach=CHECKED)
    yield Route("POST", one + ":resume", listing.resume, limits.admin_max)
    yield Route("POST", one + ":force", outcomes.force, limits.admin_max)
    yield Route("GET", some_checks, checks.poll, verb=PUBLISH, reach=CHECKED)
    yield Route(
        "POST",
        some_checks + ":answer",
        checks.answer,
        limits.receipts_max,
        verb=PUBLISH,
        reach=CHECKED,
    )


def bulk_routes(
    bulk: BulkHandlers,
    operations: OperationHandlers,
    due: DueHandlers,
    limits: BodyLimits,
) -> Iterable[Route]:
    """Many events at once are looked at and changed."""
    events, operation = "/v1/events", "/v1/operations/{id}"
    yield Route(
        "POST", events + ":cancel", bulk.cancel_events, limits.admin_max, reach=CHECKED
    )
    yield Route(
        "POST",
        events + ":reschedule",
        bulk.reschedule_events,
        limits.admin_max,
        reach=CHECKED,
    )
    yield Route("GET", "/v1/operations", operations.list)
    yield Route("GET", operation, operations.get)
    yield Route("POST", operation + ":cancel", operations.cancel, limits.admin_max)
    yield Route("GET", "/v1/due", due.of_all)
    yield Route("GET", "/v1/topics/{topic}/due", due.of_topic)


def dead_letter_routes(
    handlers: DeadLetterPages, limits: BodyLimits
) -> Iterable[Route]:
    """What was given up."""
    letters = "/v1/dead-letters"
    yield Route("GET", letters, handlers.list)
    yield Route("GET", letters + "/counts", handlers.counts)
    yield Route("POST", letters + ":redrive", handlers.redrive, limits.admin_max)
    yield Route("POST", letters + ":discard", handlers.discard, limits.admin_max)


def endpoint_routes(
    handlers: EndpointHandlers,
    tests: EndpointTestHandlers,
    attempts: AttemptHandlers,
    limits: BodyLimits,
) -> Iterable[Route]:
    """Endpoints are administered, tried and looked at."""
    one = "/v1/endpoints/{name}"
    yield Route("GET", "/v1/endpoints", handlers.list)
    yield Route("GET", one, handlers.get)
    yield Route("PUT", one, handlers.put, limits.admin_max)
    yield Route("PATCH", one, handlers.patch, limits.admin_max)
    yield Route("DELETE", one, handlers.delete)
    yield Route("POST", one + ":pause", handlers.pause, limits.admin_max)
    yield Route("POST", one + ":resume", handlers.resume, limits.admin_max)
    yield Route("POST", one + ":enable", handlers.resume, limits.admin_max)
    yield Route(
        "POST", one + ":rotate-secret", handlers.rotate_secret, limits.admin_max
    )
    yield Route("POST", one + ":test", tests.test, limits.admin_max)
    yield Route("GET", one + "/attempts", attempts.list)


def schedule_routes(handlers: ScheduleHandlers, limits: BodyLimits) -> Iterable[Route]:
    """Schedules recur."""
    one = "/v1/schedules/{id}"
    yield Route(
        "POST",
        "/v1/schedules",
        handlers.create,
        limits.single_max,
        verb=SCHEDULE,
        reach=CHECKED,
    )
    yield Route("GET", "/v1/schedules", handlers.list, reach=CHECKED)
    yield Route("GET", one, handlers.get, reach=CHECKED)
    yield Route(
        "PATCH", one, handlers.change, limits.single_max, verb=SCHEDULE, reach=CHECKED
    )
    yield Route("DELETE", one, handlers.delete, verb=SCHEDULE, reach=CHECKED)
    yield Route("POST", one + ":pause", handlers.pause, verb=SCHEDULE, reach=CHECKED)
    yield Route("POST", one + ":resume", handlers.resume, verb=SCHEDULE, reach=CHECKED)
    yield Route("GET", one + "/next", handlers.next, reach=CHECKED)


def health_routes(
    handlers: HealthHandlers, *, metrics_open: bool = False
) -> Iterable[Route]:
    """For whoever runs the server."""
    metrics = Verb.OPEN if metrics_open else Verb.READ
    yield Route("GET", "/healthz", handlers.alive, verb=Verb.OPEN)
    yield Route("GET", "/readyz", handlers.ready, verb=Verb.OPEN)
    yield Route("GET", "/metrics", handlers.metrics, verb=metrics, reach=Reach.SUITE)


def description_routes(handlers: DescriptionHandlers) -> Iterable[Route]:
    """For whoever wants to know what there is."""
    yield Route("GET", "/openapi.json", handlers.document, verb=Verb.OPEN)
    yield Route("GET", "/docs", handlers.page, verb=Verb.OPEN, is_page=True)
