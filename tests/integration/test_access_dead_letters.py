"""A tenant's dead letters tell where they come from, by the names that it knows."""

from pathlib import Path

import pytest
from tests.integration.access_server import keyed_api


@pytest.mark.asyncio
async def test_dead_letters_have_no_names_of_the_store(tmp_path: Path) -> None:
    async with keyed_api(tmp_path) as (_, admin):
        await admin.done("PUT", "/v1/namespaces/acme", {})
        tenant = await admin.with_key(
            namespace="acme", role="operator", view_payload=True
        )
        writer = await admin.with_key(
            namespace="acme", scopes=["publish", "consume", "manage"]
        )
        await writer.done("PUT", "/v1/groups/g", {"max_attempts": 1})
        await writer.done("POST", "/v1/topics/orders/events", {"data": 1})
        taken = await writer.done(
            "POST", "/v1/groups/g:pop", {"topic": "orders", "wait_ms": 5000}
        )
        (message,) = taken["messages"]
        receipts = {"receipts": [message["receipt"]], "delay_ms": 0}
        await writer.done("POST", "/v1/groups/g:nack", receipts)
        dead = await writer.done(
            "POST", "/v1/groups/u:pop", {"topic": "%DLQ%g", "wait_ms": 5000}
        )
        properties = dead["messages"][0]["properties"]
        assert properties["dead_letter_topic"] == "orders"
        assert properties["dead_letter_group"] == "g"
        pulled = await tenant.get("/v1/topics/%25DLQ%25g/queues/0/messages?offset=0")
        assert pulled.status == 200
        assert b"acme%" not in pulled.content
