"""A service that is asked to end sends those home who wait for something.

Else they would hold it for the whole grace, and then see a lost connection.
"""

import asyncio
from pathlib import Path

import pytest
from tests.integration.cli_process import Suite

from halfpast_core_store.broker import Follow
from halfpast_core_store.broker_rpc import BrokerClient
from halfpast_core_store.record import Family
from halfpast_txn.transactions import PollChecks
from halfpast_txn.txn_rpc import TransactionsClient

LONG_MS = 60_000


@pytest.mark.asyncio
async def test_polls_of_the_transaction_service_end_with_it(tmp_path: Path) -> None:
    with Suite("broker", tmp_path), Suite("txn", tmp_path) as txn:
        client = TransactionsClient(f"unix:{tmp_path}/run/txn.sock")
        await client.poll_checks(PollChecks("nobody"))  # it is connected
        poll = asyncio.create_task(
            client.poll_checks(PollChecks("nobody", wait_ms=LONG_MS))
        )
        await client.poll_checks(PollChecks("nobody"))  # behind it on the connection
        ended = asyncio.create_task(asyncio.to_thread(txn.stop))
        assert (await asyncio.wait_for(poll, 20)).checks == []
        assert await asyncio.wait_for(ended, 20) == 0
        await client.close()


@pytest.mark.asyncio
async def test_polls_of_the_broker_end_with_it(tmp_path: Path) -> None:
    with Suite("broker", tmp_path) as broker:
        client = BrokerClient(f"unix:{tmp_path}/run/broker.sock")
        end = (await client.follow(Follow(0, Family.TIMERS))).log_end
        poll = asyncio.create_task(client.follow(Follow(end, Family.TIMERS, LONG_MS)))
        await client.follow(Follow(end, Family.TIMERS))  # behind it
        ended = asyncio.create_task(asyncio.to_thread(broker.stop))
        assert (await asyncio.wait_for(poll, 20)).frames == []
        assert await asyncio.wait_for(ended, 20) == 0
        await client.close()
