"""Where a service listens: unix:/path on this host, or tcp:host:port."""

from dataclasses import dataclass
from typing import Final

from halfpast_core_store.rpc_errors import BadAddress

UNIX_PATH_SIZE_MAX: Final = 107  # sockaddr_un has 108 bytes, the last one is zero


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A socket file on this host."""

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A host name or IP address, and a port; a server may ask for any with 0."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp:{host}:{self.port}"


def parse_address(text: str) -> UnixAddress | TcpAddress:
    """Read unix:/path, tcp:host:port or tcp:[v6]:port. Raises BadAddress."""
    scheme, _, rest = text.partition(":")
    if scheme == "unix":
        size = len(rest.encode(errors="surrogateescape"))
        if not rest or "\0" in rest:
            raise BadAddress(text, "a path is needed after unix:")
        if size > UNIX_PATH_SIZE_MAX:
            reason = (
                f"the path takes {size} bytes, a unix socket allows "
                f"{UNIX_PATH_SIZE_MAX}; choose a shorter folder"
            )
            raise BadAddress(text, reason)
        return UnixAddress(rest)
    if scheme == "tcp":
        host, _, port = rest.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if bracketed:
            host = host[1:-1]
        if not host or (":" in host and not bracketed):
            raise BadAddress(text, "tcp:host:port or tcp:[v6 address]:port is needed")
        if not (port.isascii() and port.isdigit() and int(port) <= 65535):
            raise BadAddress(text, f"{port!r} is not a port from 0 to 65535")
        return TcpAddress(host, int(port))
    raise BadAddress(text, "it must begin with unix: or tcp:")
