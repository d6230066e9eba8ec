"""The suite in a thread of somebody else's process: what `halfpast.embedded()` starts.

It is what `halfpast dev` runs, but for signals and log lines, which belong to the
process, and for sizes: a test's log has no use for a gigabyte.
"""

import asyncio
import threading
from concurrent.futures import Future
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import uvloop

from halfpast_api.clock.clock_file import ClockFile
from halfpast_api.config import ApiConfig
from halfpast_api.one_process import Configs, open_all
from halfpast_api.places import Places
from halfpast_api.push.config import PushConfig
from halfpast_chronos.config import ChronosConfig
from halfpast_core_store.config import LogConfig, StoreConfig
from halfpast_txn.address_rules import AllowList
from halfpast_txn.config import TxnConfig

MIB: Final = 1024 * 1024
SEGMENT_SIZE: Final = 64 * MIB
HERE: Final = "localhost,127.0.0.0/8,[::1]"
"""Check-backs and deliveries may go to the test's own servers."""
START_S: Final = 30.0
STOP_S: Final = 30.0


class EmbeddedSuite:
    """A suite that runs from `start` to `stop`."""

    def __init__(self, folder: Path, clock_file: ClockFile | None) -> None:
        self.address = ""
        self._places = Places.below(folder)
        self._clock_file = clock_file
        self._begun: Future[str] = Future()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked: asyncio.Event | None = None
        self._thread = threading.Thread(
            target=self._run, name="halfpast-suite", daemon=True
        )

    def start(self) -> None:
        """Returns when it answers; raises what keeps it from that."""
        self._thread.start()
        self.address = self._begun.result(START_S)

    def stop(self) -> None:
        """Returns when all is closed. Raises what made a part of it fail meanwhile."""
        if self._loop is not None and self._asked is not None:
            self._loop.call_soon_threadsafe(self._asked.set)
        self._thread.join(STOP_S)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._main())
        except BaseException as error:
            if not self._begun.done():
                self._begun.set_exception(error)
            else:
                self._failure = error

    async def _main(self) -> None:
        self._places.prepare()
        asked = self._asked = asyncio.Event()
        async with AsyncExitStack() as stack:
            address, failures = await open_all(
                stack, self._places, _configs(), self._clock_file
            )
            loop = self._loop = asyncio.get_running_loop()
            self._begun.set_result(address)
            waiting = loop.create_task(asked.wait())
            either: list[asyncio.Future[Any]] = [waiting, *failures]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            for failure in failures:
                if failure.done() and not failure.cancelled():
                    failure.result()


def start(folder: Path, *, at_ms: int | None, is_virtual: bool) -> EmbeddedSuite:
    """A suite on a folder, which answers. See `halfpast.embedding.StartSuite`."""
    clock_file = ClockFile.open(folder, at_ms) if is_virtual else None
    suite = EmbeddedSuite(folder, clock_file)
    suite.start()
    return suite


def _configs() -> Configs:
    """The same whatever the environment says: tests are to be repeatable."""
    allow = AllowList.parse(HERE)
    return Configs(
        store=StoreConfig(log=LogConfig(segment_size=SEGMENT_SIZE)),
        chronos=ChronosConfig(),
        txn=TxnConfig(),
        check_allow=allow,
        push=PushConfig(),
        push_allow=allow,
        api=ApiConfig(
            host="127.0.0.1", port=0, auth="open", check_allow=HERE, push_allow=HERE
        ),
    )
