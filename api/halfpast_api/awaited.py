"""Services that a process cannot begin without, and that start at the same time.

A supervisor starts all at once, and watches them: if one of them cannot start, it says
so and ends the others. So whoever is supervised waits without an end. Who is started by
hand does not: a service that is not there is a mistake, of which he is told at once.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from importlib import import_module

from halfpast_api.deathwatch import VARIABLE

PAUSE_S = 0.01

Answers = Callable[[], Awaitable[bool]]


async def awaited(*services: Answers, modules: tuple[str, ...] = ()) -> None:
    """Returns when each of these answers, or who is not supervised at once.

    What it needs then may be loaded before: `modules`. Nothing may be open yet, since a
    signal ends the process meanwhile.
    """
    if VARIABLE not in os.environ:
        return
    for module in modules:
        import_module(module)
    for answers in services:
        while not await _does(answers):  # noqa: ASYNC110  # another process
            await asyncio.sleep(PAUSE_S)


async def _does(answers: Answers) -> bool:
    """Whether it answers; it may raise OSError or TimeoutError for 'no'."""
    try:
        return await answers()
    except (OSError, TimeoutError):
        return False
