"""The Python SDK of Halfpast: publish, schedule, cancel and consume over HTTP."""

from halfpast.client import Client
from halfpast.consumer import Consumer, ConsumerConfig, ConsumerOptions, RetryLater
from halfpast.errors import (
    ApiProblem,
    ClientClosed,
    Conflict,
    FieldError,
    HalfpastError,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    Problem,
    QuotaExceeded,
    ServerUnreachable,
    StaleVersion,
    StoreFull,
    UnexpectedAnswer,
)
from halfpast.gather import GatherLimits
from halfpast.model import (
    Event,
    EventState,
    Message,
    NewEvent,
    Outcome,
    Published,
    Pulled,
    QueueRange,
    Settled,
    TimelineEntry,
    Topic,
)
from halfpast.retry import RetryPolicy
from halfpast.sync import SyncClient, SyncConsumer

__all__ = [
    "ApiProblem",
    "Client",
    "ClientClosed",
    "Conflict",
    "Consumer",
    "ConsumerConfig",
    "ConsumerOptions",
    "Event",
    "EventState",
    "FieldError",
    "GatherLimits",
    "HalfpastError",
    "InvalidRequest",
    "Message",
    "NewEvent",
    "NotFound",
    "Outcome",
    "OutcomeUnknown",
    "Problem",
    "Published",
    "Pulled",
    "QueueRange",
    "QuotaExceeded",
    "RetryLater",
    "RetryPolicy",
    "ServerUnreachable",
    "Settled",
    "StaleVersion",
    "StoreFull",
    "SyncClient",
    "SyncConsumer",
    "TimelineEntry",
    "Topic",
    "UnexpectedAnswer",
]
