"""Where a producer group may be asked: whether it is a URL, and one to be called.

An address in the URL is judged here, a name when it is connected to: only then is it
certain what it stands for. Notations that some resolvers read as an address and
others as a name (`http://127.1`, `http://0x7f.0.0.1`) are refused.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from halfpast_api.metadata.settings import CHECK_URL_CHARS_MAX
from halfpast_api.problems import Refusal, refuse_field
from halfpast_txn.address_rules import Address, AllowList, is_public

_PORTS: Final = {"http": 80, "https": 443}
_NOT_IN_URLS: Final = re.compile(r"[^A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]")
_AUTHORITY: Final = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]+)(:[0-9]*)?")
_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NAME_CHARS_MAX: Final = 253
_LOOPBACK: Final[tuple[Address, ...]] = (IPv4Address("127.0.0.1"), IPv6Address("::1"))


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlUse:
    """What the URL is for, as refusals tell it: the field, what is sent there, when to
    leave it out, what proves who calls, and how the server is told to allow it."""

    field: str = "check_url"
    what: str = "check-backs"
    advice: str = ", or leave it out where producers ask for checks themselves"
    secrets: str = "check_secrets"
    option: str = "check-allow"
    invalid: str = "invalid_endpoint"
    forbidden: str = "forbidden_endpoint"

    def refusal(self, detail: str) -> Refusal:
        """What is wrong with the URL."""
        return refuse_field(self.invalid, f"/{self.field}", detail)


CHECK_BACKS: Final = UrlUse()


def check_url(text: str, allow_list: AllowList, use: UrlUse = CHECK_BACKS) -> None:
    """Raise Refusal unless calls may be made to this URL."""
    parts = _split(text, use)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    addresses = _addresses(host, use, is_bracketed="[" in parts.netloc)
    if not addresses or any(
        is_public(address) or allow_list.allows(host, port, address)
        for address in addresses
    ):
        return
    shown = f"[{host}]" if ":" in host else host
    variable = use.option.upper().replace("-", "_")
    raise refuse_field(
        use.forbidden,
        f"/{use.field}",
        f"{shown} is not a public address, so {use.what} may not go there; give "
        f"another, or allow it where the server is started: --{use.option} "
        f"{shown}:{port} (HALFPAST_{variable}; for the API alone "
        f"HALFPAST_API_{variable})",
    )


def _split(text: str, use: UrlUse) -> SplitResult:
    """The parts of a URL that has all it needs and nothing that it must not have."""
    if not text or len(text) > CHECK_URL_CHARS_MAX:
        raise use.refusal(f"give 1 to {CHECK_URL_CHARS_MAX} characters{use.advice}")
    if found := _NOT_IN_URLS.search(text):
        raise use.refusal(
            f"it holds {found[0]!a}, which a URL cannot; write it in %XX, and in a "
            "host name in Punycode (xn--…)"
        )
    try:
        parts = urlsplit(text)
        is_port = parts.port != 0  # or ValueError
    except ValueError:
        raise use.refusal("its host or port cannot be read; mend it") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise use.refusal("it must begin with https:// or http:// and a host")
    if "@" in parts.netloc:
        raise use.refusal(
            "it must hold no user and no password; calls are signed instead, see "
            f"{use.secrets}"
        )
    if not _AUTHORITY.fullmatch(parts.netloc):
        raise use.refusal("its host or port cannot be read; mend it")
    if "#" in text:
        raise use.refusal("it must hold no fragment (#…), which is never sent")
    if not is_port:
        raise use.refusal("a port is a number from 1 to 65535")
    return parts


def _addresses(host: str, use: UrlUse, *, is_bracketed: bool) -> tuple[Address, ...]:
    """What `host` stands for, as far as that is certain; empty for other names."""
    if is_bracketed:
        try:
            return (IPv6Address(host if "%" not in host else ""),)
        except ValueError:
            raise use.refusal(
                "between brackets must be an IPv6 address, without a zone"
            ) from None
    name = host.removesuffix(".")
    labels = name.split(".")
    if len(name) > _NAME_CHARS_MAX or not all(map(_LABEL.fullmatch, labels)):
        raise use.refusal("its host is neither a name nor an IP address; mend it")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return (IPv4Address(name),)
        except ValueError:
            raise use.refusal(
                "its host is no IPv4 address; write four decimal numbers, such as "
                "192.0.2.7"
            ) from None
    return _LOOPBACK if labels[-1] == "localhost" else ()
