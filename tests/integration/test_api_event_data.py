"""Pages of events with their data, for exports."""

from base64 import b64encode
from pathlib import Path

import msgspec
import pytest
from tests.integration.api_server import running_api

RAW = bytes(range(256))


@pytest.mark.asyncio
async def test_a_page_has_data_if_that_is_asked_for(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        raw = b64encode(RAW).decode()
        text = b'{"data":{"a" : 1.50},"delay":"P1D","key":"k","tag":"g"}'
        reply = await api.post("/v1/topics/t/events", text)
        assert reply.status == 201
        await api.publish("t", data_base64=raw, delay="P2D", key="k")

        plain = (await api.get("/v1/events?topic=t")).body["events"]
        assert ["data" in it or "data_base64" in it for it in plain] == [False] * 2

        for more in ("", "&key=k", "&limit=1"):
            reply = await api.get(f"/v1/events?topic=t&data=true{more}")
            assert b'"data":{"a" : 1.50}' in reply.content
            first, *others = reply.body["events"]
            assert first["data"] == {"a": 1.5}
            assert [it["data_base64"] for it in others] == [raw] * len(others)

        headers = {"Accept": "application/msgpack"}
        packed = await api.get("/v1/events?topic=t&data=true", headers=headers)
        events = msgspec.msgpack.decode(packed.content)["events"]
        assert [(it["data"], it["json"]) for it in events] == [
            (b'{"a" : 1.50}', True),
            (RAW, False),
        ]

        by_tag = await api.get("/v1/events?topic=t&data=true&tag=g")
        assert [it["data"] for it in by_tag.body["events"]] == [{"a": 1.5}]
        refused = await api.get("/v1/events?data=perhaps")
        assert (refused.status, refused.code) == (422, "invalid_parameter")


@pytest.mark.asyncio
async def test_large_bodies_make_short_pages(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        for n in range(4):
            await api.publish("t", data=f"{n}" * 3_000_000, delay=f"P{n + 1}D")
        seen: list[str] = []
        token = ""
        while True:
            page = await api.get(f"/v1/events?topic=t&data=true{token}")
            assert len(page.content) < 8 * 1024 * 1024
            seen += [it["data"][0] for it in page.body["events"]]
            if page.body["next_page_token"] is None:
                break
            token = f"&page_token={page.body['next_page_token']}"
        assert seen == ["0", "1", "2", "3"]
