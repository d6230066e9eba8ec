"""Defence of a server that asks nobody for a key, against web pages.

A page in a browser on this machine may send requests to loopback addresses. What it
cannot do is lie about where they go and where they come from:

- **Host.** A page whose own name is made to point at 127.0.0.1 (DNS rebinding) may read
  the answers. Its requests bear that name, so only names that cannot be a stranger's
  are taken: addresses, names without a dot, and those that are never public.
- **Origin.** A form of another site may be sent here, and its answer not be read. It
  bears the site's origin.
"""

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from multidict import CIMultiDictProxy, istr

from halfpast_api.problems import Refusal

HOST: Final = istr("Host")
ORIGIN: Final = istr("Origin")
_SITE: Final = istr("Sec-Fetch-Site")
_FORWARDED: Final = istr("X-Forwarded-Host")  # which no form can send
_CACHE_SIZE_MAX: Final = 1000
# Reserved by RFC 2606, 6761, 6762, 8375 and by ICANN for private use, and Kubernetes'.
_PRIVATE_ENDS: Final = (
    *(".localhost", ".local", ".internal", ".home.arpa", ".lan", ".test", ".svc"),
    ".cluster.local",
)

Headers = CIMultiDictProxy[str]


def is_loopback(host: str) -> bool:
    """Whether what listens there is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class SiteGuard:
    """`allowed`: more names under which this server is known."""

    def __init__(self, allowed: Iterable[str] = (), *, loopback: bool = True) -> None:
        self._allowed = frozenset(name.strip().lower() for name in allowed) - {""}
        self._loopback = loopback
        self._known: dict[str, bool] = {}

    @property
    def remembered(self) -> int:
        """How many names are known, ours and others."""
        return len(self._known)

    def check_host(self, headers: Headers) -> None:
        """Raise Refusal unless the request is meant for this server."""
        value = headers.get(HOST)
        if value is None:  # HTTP/1.0, which no browser speaks
            return
        known = self._known.get(value)
        if known is None:
            known = self._is_ours(value)
            if len(self._known) >= _CACHE_SIZE_MAX:
                self._known.clear()
            self._known[value] = known
        if not known:
            raise Refusal(
                "forbidden_host",
                f"{value[:100]!r} is not known to be a name of this server, which asks "
                "nobody for a key and so must know that no web page speaks through a "
                "browser; use its address, or name it in HALFPAST_API_ALLOWED_HOSTS",
            )

    def check_origin(self, headers: Headers) -> None:
        """Raise Refusal for what a page of another site sends."""
        site = headers.get(_SITE)
        origin = headers.get(ORIGIN)
        if site is not None:  # the browser itself says where it comes from
            is_ours = site in ("same-origin", "none")
        else:
            is_ours = origin is None or _is_from(origin, headers)
        if not is_ours:
            raise Refusal(
                "cross_site",
                f"a page of {(origin or 'another site')[:100]!r} has sent this, and "
                "such pages may not; use a program, or the console of this server",
            )

    def _is_ours(self, value: str) -> bool:
        name = _host_name(value)
        if name is None:
            return False
        if name in self._allowed:
            return True
        try:
            address = ip_address(name)
        except ValueError:
            return "." not in name.rstrip(".") or name.endswith(_PRIVATE_ENDS)
        return address.is_loopback or not self._loopback


def _is_from(origin: str, headers: Headers) -> bool:
    place = urlsplit(origin).netloc.lower()
    known = (headers.get(HOST), headers.get(_FORWARDED))
    return any(name is not None and name.lower() == place for name in known)


def _host_name(value: str) -> str | None:
    """The name or address in a Host header; None if it is not one."""
    try:
        name = urlsplit(f"//{value}").hostname
    except ValueError:
        return None
    return name or None
