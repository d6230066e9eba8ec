"""How many events are pending, as the server itself counts them."""

import asyncio
import time

import msgspec

from halfpast_loadtest.errors import RequestFailed
from halfpast_loadtest.http_wire import WireClient
from halfpast_loadtest.server_process import ServerProcess

PATH = "/v1/due?resolution=1d"
NOT_OFFERED = frozenset({404, 405})


class PendingCount(msgspec.Struct):
    """`exact` is False while the server counts anew after an unclean end."""

    pending: int
    exact: bool = True
    seconds: float = 0.0
    """How long it took until it was exact."""


async def pending_count(
    server: ServerProcess, timeout_s: float = 300.0
) -> PendingCount | None:
    """The exact number; None if this server does not tell. Raises RequestFailed if it
    does not get exact in time."""
    began = time.monotonic()
    client = WireClient(server.host, server.port)
    try:
        while True:
            answer = await client.request("GET", PATH)
            if answer.status in NOT_OFFERED:
                return None
            if answer.status != 200:
                raise RequestFailed("counting", answer.status, answer.body)
            count = _COUNT.decode(answer.body)
            count.seconds = time.monotonic() - began
            if count.exact:
                return count
            if count.seconds > timeout_s:
                raise RequestFailed("counting anew takes too long", 200, answer.body)
            await asyncio.sleep(0.1)
    finally:
        client.close()


_COUNT = msgspec.json.Decoder(PendingCount)
