"""Which addresses a check-back may connect to."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_txn.address_rules import AllowList, is_public

PRIVATE_4 = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.255.255",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.7",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
]
PUBLIC_4 = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "128.0.0.0",
    "168.63.129.17",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
]
OTHER_PRIVATE_6 = [
    "::",
    "::1",
    "64:ff9b:1::808:808",
    "100::1",
    "2001:2::1",
    "2001:10::1",
    "2001:db8::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]
PUBLIC_6 = ["2001:4860:4860::8888", "2606:4700::1111", "2a00:1450:4001::1", "2000::1"]


def nat64(address: str) -> IPv6Address:
    return IPv6Address(int(IPv6Address("64:ff9b::")) | int(IPv4Address(address)))


def sixtofour(address: str) -> IPv6Address:
    return IPv6Address(0x2002 << 112 | int(IPv4Address(address)) << 80 | 1)


def teredo(server: str, client: str) -> IPv6Address:
    inverted = int(IPv4Address(client)) ^ 0xFFFF_FFFF
    return IPv6Address(0x2001_0000 << 96 | int(IPv4Address(server)) << 64 | inverted)


@pytest.mark.parametrize("text", [*PRIVATE_4, *OTHER_PRIVATE_6])
def test_what_is_not_public(text: str) -> None:
    assert not is_public(ip_address(text))


@pytest.mark.parametrize("text", [*PUBLIC_4, *PUBLIC_6])
def test_what_is_public(text: str) -> None:
    assert is_public(ip_address(text))


@pytest.mark.parametrize("text", PRIVATE_4)
def test_no_ipv6_form_hides_a_private_address(text: str) -> None:
    assert not is_public(IPv6Address(f"::ffff:{text}"))
    assert not is_public(IPv6Address(f"::{text}"))
    assert not is_public(IPv6Address(f"::ffff:0:{text}"))
    assert not is_public(nat64(text))
    assert not is_public(sixtofour(text))
    assert not is_public(teredo("8.8.8.8", text))
    assert not is_public(teredo(text, "8.8.8.8"))


def test_a_translated_public_address_is_public_and_a_mapped_one_is_not() -> None:
    assert is_public(nat64("8.8.8.8"))
    assert is_public(sixtofour("8.8.8.8"))
    assert is_public(teredo("8.8.8.8", "1.1.1.1"))
    assert not is_public(IPv6Address("::ffff:8.8.8.8"))


@given(st.integers(0, 2**32 - 1))
def test_never_more_than_python_calls_global(number: int) -> None:
    address = IPv4Address(number)
    if is_public(address):
        assert address.is_global
        assert not address.is_multicast


@given(st.integers(0, 2**128 - 1) | st.integers(0x2000 << 112, (0x4000 << 112) - 1))
def test_public_ipv6_is_global_unicast(number: int) -> None:
    address = IPv6Address(number)
    nat = address in IPv6Network("64:ff9b::/96")
    if is_public(address) and not nat:
        assert address in IPv6Network("2000::/3")
        assert not (address.is_private and address.sixtofour is None)


def test_an_empty_list_allows_nothing() -> None:
    for empty in (AllowList(), AllowList.parse(""), AllowList.parse(" , ")):
        assert empty == AllowList()
        assert not empty.allows("localhost", 80, IPv4Address("127.0.0.1"))
        assert not empty.permits("localhost", 80, IPv4Address("127.0.0.1"))
        assert empty.permits("example.com", 80, IPv4Address("8.8.8.8"))


def test_a_name_allows_whatever_it_resolves_to() -> None:
    allow = AllowList.parse("Hooks.Internal., localhost:8080")
    private = IPv4Address("10.0.0.1")
    assert allow.allows("hooks.internal", 80, private)
    assert allow.allows("HOOKS.internal.", 443, IPv6Address("::1"))
    assert not allow.allows("x.hooks.internal", 80, private)
    assert not allow.allows("hooks.internal.evil", 80, private)
    assert allow.allows("localhost", 8080, private)
    assert not allow.allows("localhost", 80, private)


def test_addresses_and_networks() -> None:
    allow = AllowList.parse("127.0.0.1:9000,10.1.0.0/16,[::1],[fd00::/8]:443")
    cases = [
        ("127.0.0.1", 9000, True),
        ("127.0.0.1", 9001, False),
        ("127.0.0.2", 9000, False),
        ("10.1.255.255", 1, True),
        ("10.2.0.0", 1, False),
        ("::1", 5, True),
        ("::2", 5, False),
        ("fd12::1", 443, True),
        ("fd12::1", 80, False),
        ("::ffff:10.1.0.1", 1, False),
        ("::ffff:127.0.0.1", 9000, False),
    ]
    for text, port, expected in cases:
        found = allow.allows("whatever.example", port, ip_address(text))
        assert found is expected, (text, port)


def test_an_address_in_a_name_does_not_count() -> None:
    allow = AllowList.parse("127.0.0.1")
    assert not allow.allows("127.0.0.1", 80, IPv4Address("10.0.0.1"))


def test_entries_keep_their_form() -> None:
    allow = AllowList.parse("10.0.0.0/8:80")
    assert allow == AllowList(networks=((IPv4Network("10.0.0.0/8"), 80),))
    assert hash(allow) == hash(AllowList.parse(" 10.0.0.0/8:80 ,"))


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("::1", "brackets"),
        ("fd00::/8", "brackets"),
        ("[::1", "closing bracket"),
        ("[::1]8080", r"\[fd00::/8\]:443"),
        ("[fd00::]/8", r"\[fd00::/8\]:443"),
        ("[10.0.0.1]", "IPv6 addresses only"),
        ("[fe80::1%eth0]", "zone"),
        ("[::zz]", "host name"),
        ("host:", "1 to 65535"),
        ("host:0", "1 to 65535"),
        ("host:65536", "1 to 65535"),
        ("host:http", "1 to 65535"),
        ("host:٣", "1 to 65535"),
        ("10.0.0.1/8", "host bits"),
        ("10.0.0.0/40", "not an IP address or network"),
        ("10.0.0", "all four numbers"),
        ("2130706433", "all four numbers"),
        ("300.1.1.1", "all four numbers"),
        ("http://host/", "not an IP address or network|1 to 65535"),
        ("*.internal", "host name"),
        ("bücher.example", "host name"),
        ("a b", "host name"),
        ("-x", "host name"),
        (f"{'a' * 64}.example", "host name"),
        ("a..b", "host name"),
        (".", "host name"),
        (":80", "host name"),
    ],
)
def test_what_is_no_entry_is_said(text: str, advice: str) -> None:
    with pytest.raises(ValueError, match=advice):
        AllowList.parse(f"good.example,{text}")


@given(st.text(alphabet="0123456789abcdef.:/[]%-, x*", max_size=40))
def test_parse_takes_or_refuses(text: str) -> None:
    try:
        allow = AllowList.parse(text)
    except ValueError:
        return
    assert allow.permits("a", 1, IPv4Address("8.8.8.8"))
