"""How far a long bench is, on standard error: what is printed there is no result."""

import sys
import time

TERMINAL_S = 0.2
FILE_S = 10.0


class Progress:
    """One line that is written over on a terminal, or one every ten seconds."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = max(total, 1)
        self._terminal = sys.stderr.isatty()
        self._began = time.monotonic()
        self._told_at = self._began
        self._told = False

    def at(self, done: int) -> None:
        """So much is done; printed now and then."""
        now = time.monotonic()
        if now - self._told_at < (TERMINAL_S if self._terminal else FILE_S):
            return
        self._told_at = now
        rate = done / (now - self._began)
        text = (
            f"{self._what}: {done:,} of {self._total:,} "
            f"({done / self._total:.0%}), {rate:,.0f} per second"
        )
        self._tell(text)

    def say(self, text: str) -> None:
        """What is done next, where it cannot be counted."""
        self._tell(f"{self._what}: {text}")
        self.end()

    def end(self) -> None:
        """Begin a new line, if one was begun."""
        if self._told and self._terminal:
            print(file=sys.stderr, flush=True)
        self._told = False

    def _tell(self, text: str) -> None:
        self._told = True
        if self._terminal:
            print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)
