"""The same as `transaction_loop.py`, through the SDK as a user's service would.

One client that gathers, many transactions in flight in one event loop: beginnings
and ends of transactions that meet travel together.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from halfpast import Client, HalfpastError
from halfpast_loadtest.closed_loop import LoopConfig
from halfpast_loadtest.transaction_loop import AGAIN_S, TransactionFigures


async def run_sdk_transactions(
    address: str,
    group: str,
    topic: str,
    datas: Sequence[bytes],
    config: LoopConfig,
    *,
    on_window: Callable[[], None] = lambda: None,
) -> TransactionFigures:
    """Keep `config.callers` transactions in flight; all have ended when this returns.

    `on_window` is called when the measured window begins and when it ends.
    """
    figures = TransactionFigures()
    phase = _Phase()
    async with Client(address, gather=True) as client:
        callers = [
            asyncio.create_task(
                _call(client, group, topic, datas[at % len(datas) :], phase, figures)
            )
            for at in range(config.callers)
        ]
        await asyncio.sleep(config.warmup_s)
        on_window()
        began, began_cpu = time.perf_counter(), time.process_time()
        phase.measures = True
        await asyncio.sleep(config.seconds)
        phase.measures = False
        phase.stopping = True
        figures.window_s = time.perf_counter() - began
        figures.window_cpu_s = time.process_time() - began_cpu
        on_window()
        await asyncio.gather(*callers)
    return figures


class _Phase:
    """What all callers do now."""

    def __init__(self) -> None:
        self.measures = False
        self.stopping = False


async def _call(
    client: Client,
    group: str,
    topic: str,
    datas: Sequence[bytes],
    phase: _Phase,
    figures: TransactionFigures,
) -> None:
    at = 0
    while not phase.stopping:
        at = (at + 1) % len(datas)
        began = time.perf_counter()
        try:
            async with client.transaction(group) as transaction:
                await transaction.send(topic, datas[at])
                begun = time.perf_counter()
        except HalfpastError:
            figures.failed += 1
            await asyncio.sleep(AGAIN_S)
            continue
        ended = time.perf_counter()
        figures.committed += 1
        if phase.measures:
            figures.window_committed += 1
            figures.begins_ms.append((begun - began) * 1000)
            figures.commits_ms.append((ended - begun) * 1000)
