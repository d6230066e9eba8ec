"""What a run is doing, on a terminal; quiet where nobody looks."""

import sys
import time
from types import TracebackType
from typing import Self, TextIO


class Tracker:
    """Writes one line a step, with the time it took when it is done. Below it, Spark
    shows a bar for each stage that takes longer."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._shows = self._stream.isatty()
        self._began_s = 0.0
        self._step = ""
        self.steps_s: dict[str, float] = {}
        """How long each step took."""

    def tell(self, step: str) -> None:
        """From now on this is being done."""
        self._finish()
        self._step, self._began_s = step, time.monotonic()
        self._write(f"{step} …\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._finish()

    def _finish(self) -> None:
        if self._step:
            took_s = time.monotonic() - self._began_s
            self.steps_s[self._step] = round(took_s, 3)
            self._write(f"{self._step}: {took_s:.1f} s\n")

    def _write(self, text: str) -> None:
        if self._shows:
            self._stream.write(text)
            self._stream.flush()
