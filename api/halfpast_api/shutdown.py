"""How a service process ends: asked to, or because a part of it has failed.

Asked (SIGTERM, SIGHUP, Ctrl-C): its parts close in reverse order, and what was
accepted is finished. Asked again a second later: at once. A failed part ends the
process at once as well: the disk is what counts, and a start reads it anew.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from halfpast_api.cli_output import INTERRUPTED, REFUSED, STORE_FAILED
from halfpast_api.tuning import tune_interpreter

Failure = asyncio.Future[None]
OpenParts = Callable[[AsyncExitStack], Awaitable[Sequence[Failure]]]

PATIENCE_S = 20.0
REPEAT_S = 1.0
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Asked:
    """Tells an impatient second request to stop from an echo of the first.

    `timeout`, shells and process managers signal a process and then its whole
    group, so that it gets the same signal twice within a moment.
    """

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._first_s: float | None = None

    def again(self) -> bool:
        """Note a request; whether it means 'at once'."""
        now_s = self._monotonic_s()
        if self._first_s is None:
            self._first_s = now_s
            return False
        return now_s - self._first_s >= REPEAT_S


async def serve_until_asked(open_parts: OpenParts, ready: Callable[[], None]) -> None:
    """Open the parts, call `ready`, run until a signal comes, close the parts.

    `open_parts` puts what it opens on the stack and returns the futures by which
    running parts tell that they have failed. Does not return if one does.
    """
    asked = _signals()
    async with AsyncExitStack() as stack:
        failures = await open_parts(stack)
        tune_interpreter()
        ready()
        waiting = asyncio.create_task(asked.wait())
        either: list[asyncio.Future[Any]] = [waiting, *failures]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        for failure in failures:
            if failure.done() and not failure.cancelled():
                _fail(failure.exception())
        asyncio.get_running_loop().call_later(PATIENCE_S, _give_up)
    ignore_echoes()


def ignore_echoes() -> None:
    """To be called when all is closed and only the process itself has to end.

    A closed loop gives signals back to the system, which would kill the process
    for a request that it has just fulfilled, and falsify its status.
    """
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)


def _signals() -> asyncio.Event:
    """Set by the first signal; a later one ends the process."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    requests = Asked(loop.time)

    def ask() -> None:
        if requests.again():
            _exit("ended at once, as asked twice", INTERRUPTED)
        asked.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, ask)
    return asked


def _fail(error: BaseException | None) -> None:
    from halfpast_core_store.errors import IndexFailed, StoreFailed

    is_store = isinstance(error, (StoreFailed, IndexFailed))
    code = STORE_FAILED if is_store else REFUSED
    _exit(str(error) or repr(error), code)


def _give_up() -> None:
    _exit(f"still not closed after {PATIENCE_S:.0f} s; ended", REFUSED)


def _exit(text: str, code: int) -> None:
    # No clean-up: it could hang on the same disk, and nothing depends on it.
    print(f"error: {text}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(code)
