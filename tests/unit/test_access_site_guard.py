"""A web page cannot speak to an open server by making its own name point there."""

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from halfpast_api.access.session_handlers import safe_path
from halfpast_api.access.site_guard import SiteGuard, is_loopback
from halfpast_api.problems import Refusal


def sent(**headers: str) -> CIMultiDictProxy[str]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return CIMultiDictProxy(CIMultiDict(named))


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "localhost:7080", "127.0.0.1:7080", "[::1]:7080", "[::1]"),
        *("halfpast:7080", "api.internal", "box.local", "dev.localhost", "LOCALHOST"),
        *("queue.example.org", "queue.example.org:443", "QUEUE.example.org"),
    ],
)
def test_names_that_no_page_can_have(host: str) -> None:
    SiteGuard(["queue.example.org"]).check_host(sent(Host=host))


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:7080", "127.0.0.1.evil.example", "localhost.a"),
        *("", "[", "a b.c", "192.168.1.5", "example.org.", "::"),
    ],
)
def test_names_that_a_page_can_have(host: str) -> None:
    guard = SiteGuard(["queue.example.org"])
    for _ in range(2):  # the second time it is known
        with pytest.raises(Refusal) as raised:
            guard.check_host(sent(Host=host))
        assert raised.value.code == "forbidden_host"


def test_addresses_are_names_of_a_server_that_listens_for_others() -> None:
    guard = SiteGuard(loopback=False)
    guard.check_host(sent(Host="192.168.1.5:7080"))
    with pytest.raises(Refusal):
        guard.check_host(sent(Host="evil.example"))


def test_no_browser_leaves_the_host_out() -> None:
    SiteGuard().check_host(sent())


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://localhost:7080", "Host": "localhost:7080"},
        {
            "Origin": "https://Q.example",
            "Host": "10.0.0.1",
            "X_Forwarded_Host": "q.example",
        },
        {"Origin": "https://q.example", "Sec_Fetch_Site": "same-origin", "Host": "x"},
        {"Sec_Fetch_Site": "none"},
    ],
)
def test_ones_own_pages(headers: dict[str, str]) -> None:
    SiteGuard().check_origin(sent(**headers))


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example", "Host": "localhost:7080"},
        {"Origin": "http://localhost:3000", "Host": "localhost:7080"},
        {"Origin": "null", "Host": "localhost:7080"},
        {"Sec_Fetch_Site": "cross-site"},
        {
            "Sec_Fetch_Site": "same-site",
            "Origin": "http://localhost",
            "Host": "localhost",
        },
    ],
)
def test_pages_of_others(headers: dict[str, str]) -> None:
    with pytest.raises(Refusal) as raised:
        SiteGuard().check_origin(sent(**headers))
    assert raised.value.code == "cross_site"


def test_what_is_remembered_is_bounded() -> None:
    guard = SiteGuard()
    for number in range(5000):
        with pytest.raises(Refusal):
            guard.check_host(sent(Host=f"a{number}.example"))
    assert guard.remembered <= 1000


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "::1"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", ""])
def test_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("path", ["/console", "/console/topics?a=b", "/console?x"])
def test_places_of_the_console(path: str) -> None:
    assert safe_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        *("", "//evil.example", "https://evil.example", "/consoleevil", "/v1/events"),
        *("/console\r\nX: y", "/console/\\evil.example", "javascript:alert(1)"),
        "/console/" + "x" * 3000,
    ],
)
def test_nobody_is_sent_elsewhere(path: str) -> None:
    assert safe_path(path) == "/console"
