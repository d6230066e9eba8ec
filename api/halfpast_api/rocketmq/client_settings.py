"""What clients are told to do, in answer to the settings that they bring.

Each of these fields was missed by some client: without a largest body the clients of
Python and Node refuse every message, without a batch size that of Node asks for none,
without a time to wait that of Python asks again at once.
"""

from typing import TYPE_CHECKING, Final

from halfpast_api.metadata.settings import GroupSettings
from halfpast_api.rocketmq.config import GrpcConfig
from halfpast_api.rocketmq.protocol import (
    ClientType,
    CustomizedBackoff,
    ExponentialBackoff,
    Language,
    RetryPolicy,
    Settings,
    TelemetryCommand,
)
from halfpast_api.rocketmq.statuses import OK

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration

_SEND_ATTEMPTS: Final = 3
_SEND_BACKOFF_MS: Final = 100
_SEND_BACKOFF_MS_MAX: Final = 2_000
_STEPS_MAX: Final = 32
_MULTIPLIER: Final = 2.0

KNOWN_KINDS: Final = frozenset(
    (
        ClientType.PRODUCER,
        ClientType.PUSH_CONSUMER,
        ClientType.SIMPLE_CONSUMER,
        ClientType.PULL_CONSUMER,
    )
)


def producer_settings(asked: Settings, config: GrpcConfig) -> TelemetryCommand:
    """For a producer: its own settings, with what we say about them."""
    told = _copy(asked)
    told.publishing.max_body_size = config.body_max
    told.publishing.validate_message_type = True
    # Of another kind, or without one, the client of Node does not start.
    told.backoff_policy.CopyFrom(
        RetryPolicy(
            max_attempts=_SEND_ATTEMPTS,
            exponential_backoff=_exponential(_SEND_BACKOFF_MS, _SEND_BACKOFF_MS_MAX),
        )
    )
    # Without a status the client of Python takes no notice.
    return TelemetryCommand(status=OK, settings=told)


def consumer_settings(
    asked: Settings, group: GroupSettings, config: GrpcConfig
) -> TelemetryCommand:
    """For a consumer. How often a message is offered, and after how long, are the
    group's settings; the broker holds to them whatever a client makes of this."""
    told = _copy(asked)
    told.subscription.fifo = group.ordered
    told.subscription.receive_batch_size = config.receive_batch
    _set(told.subscription.long_polling_timeout, config.poll_ms)
    policy = RetryPolicy(max_attempts=group.max_attempts)
    first_ms, last_ms = group.backoff_initial_ms, group.backoff_max_ms
    # Node knows the one, Python the other; given the wrong one, Node sends a FIFO
    # message to the dead letters after its first attempt.
    if asked.user_agent.language == Language.NODE_JS:
        policy.exponential_backoff.CopyFrom(_exponential(first_ms, last_ms))
    else:
        policy.customized_backoff.CopyFrom(
            _customized(first_ms, last_ms, group.max_attempts)
        )
    told.backoff_policy.CopyFrom(policy)
    return TelemetryCommand(status=OK, settings=told)


def _copy(asked: Settings) -> Settings:
    told = Settings()
    told.CopyFrom(asked)
    told.metric.Clear()  # nobody collects metrics from clients
    told.metric.SetInParent()
    return told


def _exponential(first_ms: int, last_ms: int) -> ExponentialBackoff:
    policy = ExponentialBackoff(multiplier=_MULTIPLIER)
    _set(policy.initial, first_ms)
    _set(policy.max, last_ms)
    return policy


def _customized(first_ms: int, last_ms: int, attempts: int) -> CustomizedBackoff:
    """The same, step by step; the last step is repeated."""
    policy = CustomizedBackoff()
    for step in range(min(max(attempts, 1), _STEPS_MAX)):
        wait_ms = min(first_ms << step, last_ms)
        _set(policy.next.add(), wait_ms)
        if wait_ms >= last_ms:
            break
    return policy


def _set(field: "Duration", ms: int) -> None:
    field.seconds, field.nanos = ms // 1000, ms % 1000 * 1_000_000
