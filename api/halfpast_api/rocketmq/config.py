"""What may be tuned in the front for RocketMQ clients. Imports nothing of gRPC."""

from dataclasses import dataclass, field
from typing import Final

from halfpast_api.rocketmq.tls import TlsConfig

OFF: Final = "off"
DEFAULT_ADDRESS: Final = "127.0.0.1:8081"
"""Where RocketMQ's own proxy listens."""

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcConfig:
    """Everything about the front of one API process."""

    address: str = ""
    """HOST:PORT; empty, or `off`: there is no front. Port 0 takes any free one."""

    advertise: str = ""
    """HOST:PORT that routes tell clients; empty: what the client has asked for."""

    optional: bool = False
    """Whether HTTP is served all the same when somebody else has the port."""

    tls: TlsConfig = field(default_factory=TlsConfig)

    body_max: int = 4 * _MIB - 4 * _KIB
    """The largest body that producers are told to send. Less than gRPC's usual bound
    of a message, by which some clients receive: what they cannot receive is poison."""

    request_max: int = 16 * _MIB
    """The largest request."""

    batch_max: int = 1024
    """Messages in one request."""

    receive_max: int = 256
    """Messages that one receive gives at most."""

    receive_batch: int = 32
    """How many a push consumer is told to ask for."""

    poll_ms: int = 20_000
    """How long a push consumer is told to wait for messages."""

    poll_ms_max: int = 60_000
    """How long any receive waits at most."""

    liveness_ms: int = 30_000
    """A client that is silent for so long is gone; clients beat every ten seconds."""

    renew_max_ms: int = 3 * 3_600_000
    """How long messages of a push consumer stay hidden that never answers."""

    renewals_max: int = 100_000
    """Messages that are kept hidden for push consumers at once."""

    streams_max: int = 10_000
    """Telemetry streams at once."""

    calls_max: int = 20_000
    """Calls under way at once, streams with them."""

    check_topics_max: int = 10_000
    """Topics of which this process asks for check-backs at once."""

    def __post_init__(self) -> None:
        for text in (self.address, self.advertise):
            if text not in ("", OFF):
                split_address(text)

    @property
    def is_on(self) -> bool:
        """Whether there is a front."""
        return self.address not in ("", OFF)


def split_address(text: str) -> tuple[str, int]:
    """HOST:PORT or [HOST]:PORT, taken apart. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdigit()):
        raise ValueError(f"{text!r} is no address; give HOST:PORT")
    if int(port) > 65_535:
        raise ValueError(f"{text!r} is no address; a port is at most 65535")
    return host, int(port)


def join_address(host: str, port: int) -> str:
    """The other way round."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
