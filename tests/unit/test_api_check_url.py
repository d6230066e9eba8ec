"""URLs for check-backs: what is one, and which literal addresses are refused."""

from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from halfpast_api.problems import Refusal
from halfpast_api.transactions.check_url import check_url
from halfpast_txn.address_rules import AllowList, is_public

NOTHING = AllowList()


def refused(url: str, allow: str = "") -> Refusal:
    with pytest.raises(Refusal) as refusal:
        check_url(url, AllowList.parse(allow))
    (field,) = refusal.value.errors
    assert field.pointer == "/check_url"
    return refusal.value


@pytest.mark.parametrize(
    "url",
    [
        "https://shop.example",
        "http://shop.example/",
        "HTTPS://Shop.Example./checks?group=shop&x=%C3%A4",
        "https://shop.example:8443/a/b;c=d?e=f/[g]",
        "https://shop.example:/",
        "https://xn--bcher-kva.example",
        "https://my_host-1",
        "https://1.1.1.1:1/",
        "https://1.1.1.1./",
        "https://[2606:4700:4700::1111]/x",
        "https://localhost.example",
        "https://notlocalhost",
        "https://shop.example/" + "a" * 1979,
    ],
)
def test_public_ones_are_taken(url: str) -> None:
    check_url(url, NOTHING)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "1 to 2000"),
        ("https://shop.example/" + "a" * 1980, "1 to 2000"),
        ("shop.example/checks", "begin with https"),
        ("//shop.example", "begin with https"),
        ("https:shop.example", "begin with https"),
        ("https://", "begin with https"),
        ("https:///checks", "begin with https"),
        ("https://:443/", "begin with https"),
        ("ftp://shop.example", "begin with https"),
        ("file:///etc/passwd", "begin with https"),
        ("gopher://127.0.0.1:6379/_x", "begin with https"),
        ("unix:/run/docker.sock", "begin with https"),
        ("https://me@shop.example", "no user"),
        ("https://me:hush@shop.example", "no user"),
        ("https://shop.example@127.0.0.1/", "no user"),
        ("https://shop.example#a", "fragment"),
        ("https://shop.example/#", "fragment"),
        ("https://shop.example:0/", "port"),
        ("https://shop.example:65536/", "port"),
        ("https://shop.example:http/", "port"),
        ("https://shop.example:1:2/", "port"),
        ("https://::1/", "port"),
        ("https://[::1/", "port"),
        ("https://x[::1]/", "port"),
        ("https://[::1]x/", "port"),
        ("https://[127.0.0.1]/", "(at /check_url)"),
        ("https://[fe80::1%25eth0]/", "(at /check_url)"),
        ("https://[v1.a]/", "(at /check_url)"),
        ("https://shop.example/a b", "' '"),
        ("https://shop.example/\r\nHost: x", r"'\r'"),
        ("https://shop.example\\@127.0.0.1/", "'\\\\'"),
        ("https://shop.example/\0", r"'\x00'"),
        ("https://bücher.example", "Punycode"),
        ("https://ⓛocalhost", "Punycode"),
        ("https://127。0。0。1", "Punycode"),
        ("https://-a.example", "neither a name"),
        ("https://a..example", "neither a name"),
        ("https://%6cocalhost/", "neither a name"),
        ("https://a,b/", "neither a name"),
        ("https://" + "a" * 64, "neither a name"),
        ("https://" + "a." * 127 + "a", "neither a name"),
        ("https://127.1/", "four decimal"),
        ("https://2130706433/", "four decimal"),
        ("https://0x7f000001/", "four decimal"),
        ("https://127.0.0.0x1/", "four decimal"),
        ("https://0177.0.0.1/", "four decimal"),
        ("https://1.2.3.4.5/", "four decimal"),
        ("https://256.1.1.1/", "four decimal"),
        ("https://a.0x/", "four decimal"),
    ],
)
def test_what_is_no_url_for_checks(url: str, says: str) -> None:
    refusal = refused(url)
    assert refusal.code == "invalid_endpoint"
    assert says in refusal.detail
    assert "hush" not in refusal.detail


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LocalHost.",
        "a.localhost",
        "127.0.0.1",
        "127.0.0.1.",
        "127.255.255.254",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:8.8.8.8]",
        "[fe80::1]",
        "[fd00::1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[ff02::1]",
    ],
)
def test_other_addresses_are_forbidden(host: str) -> None:
    for url in (f"http://{host}/checks", f"https://{host}:8080"):
        refusal = refused(url)
        assert refusal.code == "forbidden_endpoint"
        assert "HALFPAST_CHECK_ALLOW" in refusal.detail
        assert "HALFPAST_API_CHECK_ALLOW" in refusal.detail


def test_the_advice_can_be_followed() -> None:
    for url in ("http://127.0.0.1:9000/x", "https://[fd00::1]/", "http://localhost"):
        detail = refused(url).detail
        entry = detail.partition("--check-allow ")[2].partition(" ")[0]
        check_url(url, AllowList.parse(entry))


@pytest.mark.parametrize(
    ("allow", "taken", "forbidden"),
    [
        ("localhost", "http://localhost:9000", "http://127.0.0.1:9000"),
        ("127.0.0.1", "http://localhost:9000", "http://[::1]:9000"),
        ("[::1]:80", "http://localhost", "http://localhost:81"),
        ("127.0.0.1:9000", "http://127.0.0.1:9000", "http://127.0.0.1:9001"),
        ("10.0.0.0/8:443", "https://10.1.2.3", "http://10.1.2.3"),
        ("hooks.internal, 10.0.0.0/8", "http://10.9.9.9", "http://172.16.0.1"),
    ],
)
def test_an_operator_may_allow_more(allow: str, taken: str, forbidden: str) -> None:
    check_url(taken, AllowList.parse(allow))
    assert refused(forbidden, allow).code == "forbidden_endpoint"


@given(st.text(max_size=40), st.sampled_from(["", "http://", "https://", "http://["]))
def test_any_text_is_taken_or_refused(text: str, scheme: str) -> None:
    with suppress(Refusal):
        check_url(scheme + text, NOTHING)


@example("[::1]")
@example("1.1.1.1")
@given(st.text("1208fx:.[]@#?/%al-", min_size=1, max_size=12))
def test_whoever_calls_it_sees_the_same_host(authority: str) -> None:
    """`yarl` reads the URL when it is called."""
    text = f"http://{authority}"
    try:
        check_url(text, NOTHING)
    except Refusal:
        return
    url = URL(text)
    parts = urlsplit(text)
    assert (url.user, url.password, url.fragment) == (None, None, "")
    assert (url.host or "").removesuffix(".") == (parts.hostname or "").rstrip(".")
    assert url.port == (parts.port or 80)
    with suppress(ValueError):
        assert is_public(ip_address((url.host or "").removesuffix(".")))
