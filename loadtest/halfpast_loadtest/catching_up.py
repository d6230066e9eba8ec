"""Waiting until the Delay Server has seen all that the log holds."""

import asyncio
import time

from halfpast_loadtest.errors import RequestFailed
from halfpast_loadtest.server_metrics import read_metrics, total
from halfpast_loadtest.server_process import ServerProcess


async def applied(server: ServerProcess, timeout_s: float = 300.0) -> float:
    """How many seconds it took. Raises RequestFailed if it takes longer."""
    began = time.perf_counter()
    deadline = time.monotonic() + timeout_s
    while True:
        metrics = await read_metrics(server.host, server.port)
        position = total(metrics, "delay_applied_position")
        if position >= total(metrics, "log_durable_position"):
            return time.perf_counter() - began
        if time.monotonic() > deadline:
            raise RequestFailed("following the log", 0, b"it did not catch up")
        await asyncio.sleep(0.1)
