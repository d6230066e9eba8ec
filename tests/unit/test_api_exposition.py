"""Metrics in the text format of Prometheus."""

from prometheus_client.parser import text_string_to_metric_families

from halfpast_api.exposition import Exposition, Observed
from halfpast_api.http_metrics import HttpMetrics
from halfpast_core_store.broker import BrokerStatus


def scrape(exposition: Exposition, observed: Observed) -> dict[str, float]:
    """Samples by name and labels, having parsed the text."""
    text = exposition.render(observed).decode()
    return {
        sample.name + str(dict(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_requests_are_counted_by_route_and_class() -> None:
    http = HttpMetrics([("GET", "/a"), ("GET", "/unused")])
    route = http.route("GET", "/a")
    route.observe(200, 0.0005)
    route.observe(201, 0.02)
    route.observe(503, 99.0)
    http.unmatched.observe(404, 0.001)
    found = scrape(Exposition(http), Observed())
    name = "halfpast_http_requests_total"
    assert found[name + "{'method': 'GET', 'route': '/a', 'status': '2xx'}"] == 2
    assert found[name + "{'method': 'GET', 'route': '/a', 'status': '5xx'}"] == 1
    assert found[name + "{'method': 'ANY', 'route': 'unmatched', 'status': '4xx'}"] == 1
    assert not any("/unused" in key for key in found)
    seconds = "halfpast_http_request_seconds"
    assert found[seconds + "_count{'method': 'GET', 'route': '/a'}"] == 3
    bucket = seconds + "_bucket{'le': '%s', 'method': 'GET', 'route': '/a'}"
    assert found[bucket % "0.001"] == 1
    assert found[bucket % "0.025"] == 2
    assert found[bucket % "+Inf"] == 3


def test_the_services_are_shown_with_their_own_names() -> None:
    delay = BrokerStatus(
        counters={
            "fired_total": 5,
            'lateness_ms_bucket{le="1"}': 4,
            'lateness_ms_bucket{le="+Inf"}': 5,
            "lateness_ms_sum": 7.5,
            "lateness_ms_count": 5,
        },
        gauges={"timers_in_wheel": 3, 'waiting{lane="send"}': 2, "not a name": 1},
    )
    observed = Observed(services={"delay": delay, "broker": None})
    found = scrape(Exposition(HttpMetrics([])), observed)
    assert found["halfpast_fired_total{}"] == 5
    assert found["halfpast_lateness_ms_bucket{'le': '1'}"] == 4
    assert found["halfpast_lateness_ms_sum{}"] == 7.5
    assert found["halfpast_timers_in_wheel{}"] == 3
    assert found["halfpast_waiting{'lane': 'send'}"] == 2
    assert found["halfpast_up{'service': 'delay'}"] == 1
    assert found["halfpast_up{'service': 'broker'}"] == 0


def test_types_are_told() -> None:
    status = BrokerStatus(
        counters={"a_total": 1, 'h_bucket{le="+Inf"}': 1, "h_count": 1, "h_sum": 1},
        gauges={"g": 1},
    )
    observed = Observed(services={"broker": status})
    text = Exposition(HttpMetrics([])).render(observed).decode()
    assert "# TYPE halfpast_a_total counter" in text
    assert "# TYPE halfpast_h histogram" in text
    assert "# TYPE halfpast_g gauge" in text


def test_a_counter_and_a_gauge_may_share_a_stem() -> None:
    status = BrokerStatus(
        counters={"transactions_parked_total": 7}, gauges={"transactions_parked": 2}
    )
    observed = Observed(services={"transactions": status})
    text = Exposition(HttpMetrics([])).render(observed).decode()
    assert "# TYPE halfpast_transactions_parked_total counter" in text
    assert "# TYPE halfpast_transactions_parked gauge" in text
    lines = text.splitlines()
    assert "halfpast_transactions_parked_total 7.0" in lines
    assert "halfpast_transactions_parked 2.0" in lines


def test_metrics_are_explained() -> None:
    status = BrokerStatus(
        counters={'transactions_ended_total{outcome="committed",source="check"}': 1},
        gauges={"timers_in_wheel": 3, "owls_awake": 1},
    )
    observed = Observed(services={"transactions": status})
    text = Exposition(HttpMetrics([])).render(observed).decode()
    assert "# HELP halfpast_transactions_ended_total Outcomes, and whether" in text
    words = "Timers that are loaded, since they are due soon."
    assert f"# HELP halfpast_timers_in_wheel {words}" in text
    words = "Of the transactions service: owls awake."
    assert f"# HELP halfpast_owls_awake {words}" in text


def test_this_process_shows_its_connections() -> None:
    observed = Observed(
        connections=5,
        ended={"idle": 2},
        long_polls=3,
        body_bytes=9,
        metadata_stale=True,
    )
    found = scrape(Exposition(HttpMetrics([])), observed)
    assert found["halfpast_http_connections{}"] == 5
    assert found["halfpast_http_long_polls{}"] == 3
    assert found["halfpast_http_body_bytes{}"] == 9
    assert found["halfpast_metadata_stale{}"] == 1
    assert found["halfpast_http_connections_ended_total{'reason': 'idle'}"] == 2


def test_two_processes_in_one_do_not_share_numbers() -> None:
    first, second = HttpMetrics([("GET", "/a")]), HttpMetrics([("GET", "/a")])
    first.route("GET", "/a").observe(200, 0.1)
    assert "/a" not in Exposition(second).render(Observed()).decode()
    assert "/a" in Exposition(first).render(Observed()).decode()
