"""A pop whose caller goes away: what it took can be had by others at once."""

import asyncio
from pathlib import Path

import pytest
from tests.integration.api_server import SMALL_STORE

from halfpast_core_store.broker import Append, EnsureTopic, Pop, Run
from halfpast_core_store.record import RecordKind, encode_record
from halfpast_core_store.service import BrokerService

pytestmark = pytest.mark.asyncio


async def test_what_an_abandoned_pop_took_is_offered_again_as_untried(
    tmp_path: Path,
) -> None:
    broker = await BrokerService.open(tmp_path, SMALL_STORE)
    try:
        topic = await broker.ensure_topic(EnsureTopic("orders", 1))
        record = encode_record(RecordKind.NORMAL, event_id=b"\1" * 16, body=b"0")
        await broker.append(Append([Run(topic.id, 0, [record])]))
        popping = asyncio.create_task(broker.pop(Pop("readers", "orders")))
        await asyncio.sleep(0)  # it has taken the message, which is not durable yet
        popping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await popping
        popped = await broker.pop(Pop("readers", "orders", wait_ms=10_000))
        assert [it.attempt for it in popped.messages] == [1]
    finally:
        await broker.close()
