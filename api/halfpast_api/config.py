"""What may be tuned in the HTTP API."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from halfpast_api.access.config import (
    AuthMode,
    OidcConfig,
    SessionConfig,
    SignatureConfig,
    TrailConfig,
)
from halfpast_api.load.overload_config import OverloadConfig
from halfpast_api.rocketmq.config import GrpcConfig
from halfpast_core_store.record import BODY_SIZE_MAX
from halfpast_txn.address_rules import AllowList
from halfpast_txn.config import MESSAGE_COUNT_MAX, MESSAGE_SIZE_MAX

KIB: Final = 1024
MIB: Final = 1024 * KIB
ID_BLOCK_SIZE: Final = 10_000
"""Events of one request have consecutive ids; a block has room for so many."""

_ID_COUNT_MAX: Final = 1 << 16  # ids of transactions that follow from one


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """How large a request may be, in bytes after decompression."""

    single_max: int = BODY_SIZE_MAX * 4 // 3 + 64 * KIB
    """One event: the largest body as base64, and room for the rest."""

    batch_max: int = 32 * MIB
    """A batch of events."""

    receipts_max: int = 4 * MIB
    """Receipts to settle."""

    admin_max: int = 64 * KIB
    """Everything else."""

    held_max: int = 256 * MIB
    """All bodies that are being received at one time."""

    batch_count_max: int = ID_BLOCK_SIZE
    """Events in one batch; no more than an id block has room for."""

    depth_max: int = 128
    """Levels of nesting in JSON."""

    def __post_init__(self) -> None:
        if not 0 < self.batch_count_max <= ID_BLOCK_SIZE:
            raise ValueError(f"batch_count_max must be 1 to {ID_BLOCK_SIZE}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLimits:
    """How much a transaction may hold, and one request about several of them."""

    message_count_max: int = MESSAGE_COUNT_MAX
    """Messages in one transaction."""

    message_size_max: int = MESSAGE_SIZE_MAX
    """Bytes of all their records together."""

    count_max: int = 1_000
    """Transactions in one request."""

    batch_message_count_max: int = 10_000
    """Messages in all of them."""

    def __post_init__(self) -> None:
        if not 0 < self.message_count_max < ID_BLOCK_SIZE:  # one id is its own
            raise ValueError(f"message_count_max must be 1 to {ID_BLOCK_SIZE - 1}")
        if not 0 < self.count_max <= _ID_COUNT_MAX:
            raise ValueError(f"count_max must be 1 to {_ID_COUNT_MAX}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How long a client may take and how many connections there may be."""

    header_timeout_s: float = 10.0
    """From the first byte of a request to the end of its headers; also from the
    beginning of a connection to its first request."""

    body_timeout_s: float = 30.0
    """For the body, and beyond that the time it takes at `body_rate_min`."""

    body_rate_min: int = 128 * KIB
    """Bytes per second."""

    idle_timeout_s: float = 75.0
    """Between two requests. Longer than the 60 s of common proxies."""

    write_timeout_s: float = 30.0
    """How long a client may not read its answer."""

    sweep_s: float = 1.0
    """How often the connections are looked at, so how exact the above is."""

    count_max: int = 10_000
    """Connections at once."""

    per_address_max: int = 5_000
    """Connections at once from one address. Proxies come from one address."""

    lingering_s: float = 2.0
    """How long the rest of a refused body is read, so that the client sees why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiConfig:
    """Everything about one API process. Read once at its start."""

    host: str = "127.0.0.1"
    port: int = 7080
    """0 takes any free one; see `RunningApi.address`."""

    bodies: BodyLimits = field(default_factory=BodyLimits)
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    transactions: TransactionLimits = field(default_factory=TransactionLimits)
    overload: OverloadConfig = field(default_factory=OverloadConfig)

    auto_create_topics: bool = True
    """Whether publishing to an unknown topic creates it."""

    topic_cache_s: float = 5.0
    """How old what is known of a topic (its queues) may be."""

    metadata_snapshot: Path | None = None
    """Where settings are kept for a start without the metadata database."""

    auth: AuthMode = "open"
    """Whether callers need a key; see `AuthMode`."""

    metrics_open: bool = False
    """Whether `/metrics` answers without a key."""

    allowed_hosts: str = ""
    """More names of this server, with commas between: where nobody is asked for a key,
    requests for other names are refused, since they may come from web pages."""

    sessions: SessionConfig = field(default_factory=SessionConfig)
    signatures: SignatureConfig = field(default_factory=SignatureConfig)
    trail: TrailConfig = field(default_factory=TrailConfig)
    oidc: OidcConfig = field(default_factory=OidcConfig)

    grpc: GrpcConfig = field(default_factory=GrpcConfig)
    """Where RocketMQ clients are served, if they are."""

    check_allow: str = ""
    """Hosts, addresses and networks, each with an optional port and with commas
    between, that a check_url may name though they are not public."""

    push_allow: str = ""
    """The same for the URL of an endpoint."""

    ready_timeout_s: float = 2.0
    """How long `/readyz` waits for the services behind the API."""

    shutdown_s: float = 10.0
    """How long requests in flight may take to end at a shutdown."""

    reuse_port: bool = False
    """Whether several processes may share the port."""

    def __post_init__(self) -> None:
        for name in ("check_allow", "push_allow"):
            try:
                AllowList.parse(getattr(self, name))
            except ValueError as error:  # so that a mistake shows at the start
                raise ValueError(f"{name}: {error}") from None
