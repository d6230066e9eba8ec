"""The one thread that writes to the log's disk."""

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable

from .histogram import Histogram

Job = tuple[Callable[[], None], Callable[[Exception | None], None], Histogram | None]


class SyncThread:
    """Runs one blocking job after another and reports each to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="sync", daemon=True)
        self._thread.start()
        self.seconds = 0.0

    def run(
        self,
        job: Callable[[], None],
        done: Callable[[Exception | None], None],
        measured: Histogram | None = None,
    ) -> None:
        """Do `job` on the thread, then call `done` on the loop, with its error; how
        long it took goes into `measured`."""
        self._jobs.put((job, done, measured))

    def _work(self) -> None:
        while (task := self._jobs.get()) is not None:
            job, done, measured = task
            started = time.perf_counter()
            try:
                job()
                error = None
            except Exception as raised:
                error = raised
            took_s = time.perf_counter() - started
            self.seconds += took_s
            if measured is not None:
                measured.add(took_s)
            with contextlib.suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(done, error)

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()
