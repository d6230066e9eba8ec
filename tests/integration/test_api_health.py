"""What /readyz and /metrics tell of the transaction service."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.api_server import Api, serve
from tests.integration.api_stub import StubServices

from halfpast_core_store.broker import BrokerStatus, Empty

pytestmark = pytest.mark.asyncio


class StubTransactions(StubServices):
    """Has gauges of its own, since the names of services tell them apart."""

    async def status(self, request: Empty) -> BrokerStatus:
        if self.error is not None:
            raise self.error
        return BrokerStatus({"transactions_begun_total": 5}, self.gauges)


@pytest.fixture
def txn() -> StubTransactions:
    return StubTransactions()


@pytest_asyncio.fixture
async def api(txn: StubTransactions, tmp_path: Path) -> AsyncIterator[Api]:
    others = StubServices()
    async with serve(others.broker, others.delay, txn.transactions, tmp_path) as api:
        yield api


async def test_being_ready_needs_the_transaction_service(
    api: Api, txn: StubTransactions
) -> None:
    reply = await api.get("/readyz")
    assert (reply.status, reply.body["transactions"]) == (200, "ok")
    txn.gauges["txn_service_ready"] = 0.0
    reply = await api.get("/readyz")
    assert (reply.status, reply.code) == (503, "not_ready")
    assert reply.body["detail"].startswith("transactions: the transaction service is")
    txn.gauges["txn_service_ready"] = 1.0
    assert (await api.get("/readyz")).status == 200


async def test_its_metrics_are_shown(api: Api, txn: StubTransactions) -> None:
    txn.gauges["transactions_open"] = 3.0
    lines = (await api.get("/metrics")).content.decode().splitlines()
    assert "halfpast_transactions_begun_total 5.0" in lines
    assert "halfpast_transactions_open 3.0" in lines
    assert 'halfpast_up{service="transactions"} 1.0' in lines
    txn.error = OSError("gone")
    lines = (await api.get("/metrics")).content.decode().splitlines()
    assert 'halfpast_up{service="transactions"} 0.0' in lines
    assert 'halfpast_up{service="broker"} 1.0' in lines
