"""Which addresses a check-back, or a delivery, may connect to.

The URL comes from whoever may set up groups or endpoints, but the call comes from
inside our network. So only public addresses are reached, unless an operator
lists others. Names prove nothing: what counts is the address that is connected to.
"""

import re
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

ANY_PORT = 0

_NOT_PUBLIC_4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network; the first address is also "this machine"
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT, and Alibaba's metadata
            "127.0.0.0/8",
            "168.63.129.16/32",  # Azure's machine agent
            "169.254.0.0/16",  # link-local, and nearly everybody's metadata
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocol assignments, and Oracle's metadata
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # relays from 6to4
            "192.168.0.0/16",
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
_GLOBAL_6 = IPv6Network("2000::/3")
"""All that is handed out. Outside of it lie ::1, v4-mapped and v4-compatible ones,
fc00::/7 (with metadata of Amazon and Google), fe80::/10, ff00::/8, and the rest."""
_NOT_PUBLIC_6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, benchmarks; Teredo is seen before
            "2001:db8::/32",  # documentation
            "3fff::/20",  # documentation
        ),
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")


def is_public(address: Address) -> bool:
    """Whether `address` belongs to the public internet.

    An IPv6 address that stands for an IPv4 one (NAT64, 6to4, Teredo) is as public as
    that is. Mapped and compatible forms never come out of an honest lookup: not public.
    """
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    if address in _NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    if address.sixtofour is not None:
        return is_public(address.sixtofour)
    if address.teredo is not None:
        return all(is_public(embedded) for embedded in address.teredo)
    return address in _GLOBAL_6 and not any(
        address in network for network in _NOT_PUBLIC_6
    )


@dataclass(frozen=True, slots=True)
class AllowList:
    """What may be reached though it is not public. Empty unless an operator says so."""

    names: frozenset[tuple[str, int]] = frozenset()
    networks: tuple[tuple[Network, int], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "AllowList":
        """Entries with commas between: `hooks.internal`, `10.1.2.3:8080`,
        `10.0.0.0/8`, `[fd00::/8]:443`. Raises ValueError, which says what is wrong.

        Without a port an entry allows every port.
        """
        names: set[tuple[str, int]] = set()
        networks: list[tuple[Network, int]] = []
        for entry in filter(None, map(str.strip, text.split(","))):
            host, port = _split(entry)
            if "/" in host or _is_address(host):
                networks.append((_network(entry, host), port))
            else:
                names.add((_name(entry, host), port))
        return cls(frozenset(names), tuple(networks))

    def allows(self, host: str, port: int, address: Address) -> bool:
        """Whether the list names `host`, or holds `address`, for this port.

        A named host may resolve to anything. `host` is as in a URL, without brackets.
        """
        name = plain_name(host)
        if (name, port) in self.names or (name, ANY_PORT) in self.names:
            return True
        return any(
            address in network and allowed in (ANY_PORT, port)
            for network, allowed in self.networks
        )

    def permits(self, host: str, port: int, address: Address) -> bool:
        """Whether a call may connect to `address`: a public or an allowed one."""
        return is_public(address) or self.allows(host, port, address)


def plain_name(host: str) -> str:
    """A host name as names are compared: lower case, without the root's dot."""
    return host.lower().removesuffix(".")


def _split(entry: str) -> tuple[str, int]:
    """Host or network, without brackets, and port."""
    if entry.startswith("["):
        host, bracket, rest = entry[1:].partition("]")
        if not bracket:
            raise ValueError(f"{entry!r} has no closing bracket")
        if ":" not in host:
            raise ValueError(f"{entry!r}: brackets are for IPv6 addresses only")
        if rest and not rest.startswith(":"):
            raise ValueError(f"{entry!r}: write a network as [fd00::/8]:443")
        return host, _port(entry, rest[1:]) if rest else ANY_PORT
    host, colon, port = entry.partition(":")
    if ":" in port:
        raise ValueError(f"{entry!r}: put IPv6 in brackets, such as [fd00::/8]:443")
    return host, _port(entry, port) if colon else ANY_PORT


def _port(entry: str, text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65_536:
        return int(text)
    raise ValueError(f"{entry!r}: a port is a number from 1 to 65535")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _network(entry: str, text: str) -> Network:
    if "%" in text:
        raise ValueError(f"{entry!r}: an address here has no zone")
    try:
        return ip_network(text)
    except ValueError as error:
        raise ValueError(
            f"{entry!r} is not an IP address or network: {error}"
        ) from None


def _name(entry: str, host: str) -> str:
    name = plain_name(host)
    labels = name.split(".")
    if len(name) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(
            f"{entry!r} is not a host name, IP address or network, "
            "each with an optional :port"
        )
    if labels[-1].isdigit():
        raise ValueError(f"{entry!r} is not an IP address: write all four numbers")
    return name
