"""Statuses, handles and addresses that clients are told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.problems import KINDS, Refusal
from halfpast_api.rocketmq import protocol as wire
from halfpast_api.rocketmq.advertised import Advertised, endpoints_of
from halfpast_api.rocketmq.config import GrpcConfig, join_address, split_address
from halfpast_api.rocketmq.recall_handle import parse_handle, render_handle
from halfpast_api.rocketmq.statuses import (
    CallRefused,
    code_of,
    known_status,
    status_of,
)
from halfpast_core_store.errors import Overloaded, StoreFailed, UnknownTopic
from halfpast_core_store.rpc_errors import ConnectionLost, Unavailable

# What some client takes for success, or for an answer of another kind.
SUCCESSES = {wire.Code.OK, wire.Code.MULTIPLE_RESULTS, wire.Code.MESSAGE_NOT_FOUND}


@pytest.mark.parametrize("code", sorted(KINDS))
def test_no_client_takes_a_refusal_for_success(code: str) -> None:
    told = code_of(Refusal(code, "no"))
    assert told not in SUCCESSES
    assert told != wire.Code.CODE_UNSPECIFIED


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnknownTopic("t"), wire.Code.TOPIC_NOT_FOUND),
        (Refusal("unauthenticated", "who?"), wire.Code.UNAUTHORIZED),
        (Refusal("forbidden", "no"), wire.Code.FORBIDDEN),
        (Refusal("too_many_pending", "no"), wire.Code.TOO_MANY_REQUESTS),
        (Refusal("rate_limited", "no"), wire.Code.TOO_MANY_REQUESTS),
        (Overloaded("send"), wire.Code.TOO_MANY_REQUESTS),
        (Refusal("transaction_conflict", "no"), wire.Code.BAD_REQUEST),
        (Unavailable("broker", "away"), wire.Code.HA_NOT_AVAILABLE),
        (ConnectionLost("broker", "gone"), wire.Code.PROXY_TIMEOUT),
        (StoreFailed("no disk"), wire.Code.MASTER_PERSISTENCE_TIMEOUT),
        (Refusal("store_full", "no room"), wire.Code.INTERNAL_ERROR),
        (CallRefused(wire.Code.ILLEGAL_OFFSET, "no"), wire.Code.ILLEGAL_OFFSET),
    ],
)
def test_errors_have_the_code_that_clients_act_by(
    error: Exception, code: wire.Code
) -> None:
    status = status_of(error)
    assert status.code == code
    assert status.message


def test_what_was_not_meant_to_happen_is_not_told() -> None:
    assert known_status(KeyError("secret")) is None
    status = status_of(KeyError("secret"), "request-7")
    assert status.code == wire.Code.INTERNAL_SERVER_ERROR
    assert "secret" not in status.message
    assert "request-7" in status.message


@given(st.binary(min_size=16, max_size=16))
def test_a_handle_is_read_back(event_id: bytes) -> None:
    assert parse_handle(render_handle(event_id)) == event_id


@given(st.binary(min_size=16, max_size=16), st.data())
def test_a_changed_handle_is_none(event_id: bytes, data: st.DataObject) -> None:
    handle = render_handle(event_id)
    at = data.draw(st.integers(0, len(handle) - 1))
    other = data.draw(st.sampled_from("AZaz09-_").filter(lambda it: it != handle[at]))
    assert parse_handle(handle[:at] + other + handle[at + 1 :]) is None


@given(st.text(max_size=80))
def test_any_text_may_be_shown_as_a_handle(text: str) -> None:
    parse_handle(text)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:8081", "127.0.0.1", 8081),
        ("[::1]:0", "::1", 0),
        ("mq.example.org:443", "mq.example.org", 443),
    ],
)
def test_addresses_are_taken_apart(text: str, host: str, port: int) -> None:
    assert split_address(text) == (host, port)
    assert join_address(host, port) == text


@pytest.mark.parametrize(
    "text", ["8081", ":8081", "host:", "host:x", "h:65536", "h:-1"]
)
def test_what_is_no_address_is_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT|65535"):
        GrpcConfig(address=text)


@pytest.mark.parametrize("text", ["", "off"])
def test_there_need_be_no_front(text: str) -> None:
    assert not GrpcConfig(address=text).is_on


@pytest.mark.parametrize(
    ("address", "scheme", "host"),
    [
        ("10.0.0.1:1", wire.AddressScheme.IPv4, "10.0.0.1"),
        ("[fe80::1]:1", wire.AddressScheme.IPv6, "fe80::1"),
        ("mq.example.org:1", wire.AddressScheme.DOMAIN_NAME, "mq.example.org"),
        ("0.0.0.0:1", wire.AddressScheme.IPv4, "127.0.0.1"),
        ("[::]:1", wire.AddressScheme.IPv6, "::1"),
    ],
)
def test_addresses_are_told_with_their_scheme(
    address: str, scheme: wire.AddressScheme, host: str
) -> None:
    endpoints = endpoints_of(address)
    assert endpoints.scheme == scheme
    assert [(it.host, it.port) for it in endpoints.addresses] == [(host, 1)]


def test_what_is_advertised_is_told_to_everybody() -> None:
    advertised = Advertised("mq.example.org:443", "127.0.0.1:8081")
    assert advertised.to(endpoints_of("10.0.0.1:1")) == endpoints_of(
        "mq.example.org:443"
    )
