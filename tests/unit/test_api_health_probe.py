"""Where a container's health check looks."""

import pytest

from halfpast_api.health_probe import USAGE, main, probe_of, reached_by_rpc


@pytest.mark.parametrize(
    ("address", "reached"),
    [
        ("unix:/data/run/broker.sock", "unix:/data/run/broker.sock"),
        ("tcp:0.0.0.0:7101", "tcp:127.0.0.1:7101"),
        ("tcp:[::]:7101", "tcp:[::1]:7101"),
        ("tcp:broker:7101", "tcp:broker:7101"),
    ],
)
def test_what_listens_everywhere_is_asked_here(address: str, reached: str) -> None:
    assert reached_by_rpc(address) == reached


def test_only_services_have_probes() -> None:
    for name in ("api", "broker", "chronos", "txn", "push"):
        assert probe_of(name, {}) is not None
    assert probe_of("up", {}) is None
    assert main(["up"], {}) == USAGE
