"""Where routes tell clients to go.

Clients send and receive at the addresses in a route, not at those that they were
given. Whoever asks for a route says how they have reached us, and that is what they are
told: so it is right behind a proxy, in a container and beyond a NAT. Where it is not,
`--grpc-advertise` says what to tell.
"""

from ipaddress import ip_address

from halfpast_api.rocketmq.config import split_address
from halfpast_api.rocketmq.protocol import Address, AddressScheme, Endpoints

_ADDRESSES_MAX = 16
_HOST_CHARS_MAX = 253
_ANYWHERE = frozenset({"0.0.0.0", "::"})


class Advertised:
    """What to tell whom. `bound` is where the front listens."""

    def __init__(self, advertise: str, bound: str) -> None:
        self._told = endpoints_of(advertise) if advertise else None
        self._bound = endpoints_of(bound)

    def to(self, asked: Endpoints) -> Endpoints:
        """For a client that has reached us at `asked`."""
        if self._told is not None:
            return self._told
        return asked if is_usable(asked) else self._bound


def is_usable(asked: Endpoints) -> bool:
    """Whether clients take this for an answer. Those of a scheme that they do not know,
    and of Python more than one host name, they refuse."""
    addresses = asked.addresses
    if not 0 < len(addresses) <= _ADDRESSES_MAX:
        return False
    if asked.scheme == AddressScheme.DOMAIN_NAME and len(addresses) > 1:
        return False
    if asked.scheme not in (
        AddressScheme.IPv4,
        AddressScheme.IPv6,
        AddressScheme.DOMAIN_NAME,
    ):
        return False
    return all(
        0 < len(it.host) <= _HOST_CHARS_MAX and 0 < it.port <= 65_535
        for it in addresses
    )


def endpoints_of(address: str) -> Endpoints:
    """HOST:PORT as clients want it. Raises ValueError."""
    host, port = split_address(address)
    if host in _ANYWHERE:  # nobody can go there; on this machine this one works
        host = "127.0.0.1" if "." in host else "::1"
    try:
        version = ip_address(host).version
        scheme = AddressScheme.IPv4 if version == 4 else AddressScheme.IPv6
    except ValueError:
        scheme = AddressScheme.DOMAIN_NAME
    return Endpoints(scheme=scheme, addresses=[Address(host=host, port=port)])
