"""The one thread that writes to the log's disk."""

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable


class SyncThread:
    """Runs one blocking job after another and reports each to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[
            tuple[Callable[[], None], Callable[[Exception | None], None]] | None
        ] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="sync", daemon=True)
        self._thread.start()
        self.seconds = 0.0

    def run(
        self, job: Callable[[], None], done: Callable[[Exception | None], None]
    ) -> None:
        """Do `job` on the thread, then call `done` on the loop, with its error."""
        self._jobs.put((job, done))

    def _work(self) -> None:
        while (task := self._jobs.get()) is not None:
            job, done = task
            started = time.perf_counter()
            try:
                job()
                error = None
            except Exception as raised:
                error = raised
            self.seconds += time.perf_counter() - started
            with contextlib.suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(done, error)

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()
