"""How a service process ends: asked to, or because a part of it has failed.

Asked (SIGTERM, Ctrl-C): its parts close in reverse order, and what was accepted is
finished. Asked again: at once. A failed part ends the process at once as well: the
disk is what counts, and a start reads it anew.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from halfpast_api.cli_output import INTERRUPTED, REFUSED, STORE_FAILED

Failure = asyncio.Future[None]
OpenParts = Callable[[AsyncExitStack], Awaitable[Sequence[Failure]]]

PATIENCE_S = 20.0


async def serve_until_asked(open_parts: OpenParts, ready: Callable[[], None]) -> None:
    """Open the parts, call `ready`, run until a signal comes, close the parts.

    `open_parts` puts what it opens on the stack and returns the futures by which
    running parts tell that they have failed. Does not return if one does.
    """
    asked = _signals()
    async with AsyncExitStack() as stack:
        failures = await open_parts(stack)
        ready()
        waiting = asyncio.create_task(asked.wait())
        either: list[asyncio.Future[Any]] = [waiting, *failures]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        for failure in failures:
            if failure.done() and not failure.cancelled():
                _fail(failure.exception())
        asyncio.get_running_loop().call_later(PATIENCE_S, _give_up)


def _signals() -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT; the second one ends the process."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ask() -> None:
        if asked.is_set():
            _exit("ended at once, as asked twice", INTERRUPTED)
        asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask)
    return asked


def _fail(error: BaseException | None) -> None:
    from halfpast_core_store.errors import StoreFailed

    code = STORE_FAILED if isinstance(error, StoreFailed) else REFUSED
    _exit(str(error) or repr(error), code)


def _give_up() -> None:
    _exit(f"still not closed after {PATIENCE_S:.0f} s; ended", REFUSED)


def _exit(text: str, code: int) -> None:
    # No clean-up: it could hang on the same disk, and nothing depends on it.
    print(f"error: {text}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(code)
