"""What the transaction service is told of producer groups."""

from halfpast_api.metadata.settings import ProducerGroupSettings
from halfpast_api.transactions.check_endpoints import CheckEndpoints
from halfpast_txn.namespace import as_known_in
from halfpast_txn.producer_group import CheckEndpoint, ProducerGroups
from halfpast_txn.transactions import Check, CheckMessage


class Cache:
    def __init__(self, **groups: ProducerGroupSettings) -> None:
        self.groups = groups

    def producer_group_settings(self, name: str) -> ProducerGroupSettings:
        return self.groups.get(name, ProducerGroupSettings())


def test_a_group_with_a_url_has_an_endpoint() -> None:
    settings = ProducerGroupSettings(
        check_url="https://shop.example/checks",
        check_secrets=("whsec_new", "whsec_old"),
        check_timeout_ms=700,
        check_concurrency_max=3,
    )
    endpoints: ProducerGroups = CheckEndpoints(Cache(shop=settings))
    assert endpoints.check_endpoint("shop") == CheckEndpoint(
        url="https://shop.example/checks",
        secrets=("whsec_new", "whsec_old"),
        timeout_ms=700,
        concurrency_max=3,
    )


def test_without_a_url_there_is_none() -> None:
    cache = Cache(shop=ProducerGroupSettings(check_secrets=("whsec_a",)))
    endpoints = CheckEndpoints(cache)
    assert endpoints.check_endpoint("shop") is None
    assert endpoints.check_endpoint("nobody") is None
    cache.groups["shop"] = ProducerGroupSettings(check_url="https://shop.example")
    endpoint = endpoints.check_endpoint("shop")
    assert endpoint is not None
    assert endpoint.url == "https://shop.example"


def test_a_group_is_told_its_own_names() -> None:
    settings = ProducerGroupSettings(check_url="https://shop.example")
    cache = Cache(**{"acme%shop": settings, "c%d": settings})
    endpoints = CheckEndpoints(cache, lambda: {"acme"})
    asked = Check(
        bytes(16), "acme%shop", 1, 0, "", 1, [CheckMessage(bytes(16), "acme%t", "", "")]
    )
    endpoint = endpoints.check_endpoint("acme%shop")
    assert endpoint is not None
    shown = as_known_in(asked, endpoint.namespace)
    assert (shown.group, shown.messages[0].topic) == ("shop", "t")
    of_default = endpoints.check_endpoint("c%d")
    assert of_default is not None
    assert as_known_in(asked, of_default.namespace) == asked
