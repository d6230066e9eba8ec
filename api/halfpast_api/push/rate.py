"""How many calls a second: a bucket of tokens. Time comes in from outside."""


class Rate:
    """Lets through `per_s` calls a second, and as many at once after a pause (one at
    least). 0 is no limit."""

    def __init__(self, per_s: float) -> None:
        self.per_s: float = per_s
        self._size = max(1.0, per_s)
        self._tokens = self._size
        self._at_ms: int | None = None

    def wait_ms(self, now_ms: int) -> int:
        """How long until `take` may be called; 0 for now."""
        if not self.per_s:
            return 0
        self._fill(now_ms)
        if self._tokens >= 1:
            return 0
        return max(1, round((1 - self._tokens) / self.per_s * 1000))

    def take(self, now_ms: int) -> None:
        """Count a call."""
        if self.per_s:
            self._fill(now_ms)
            self._tokens -= 1

    def change(self, per_s: float) -> None:
        """From now on another limit."""
        if per_s != self.per_s:
            self.per_s = per_s
            self._size = max(1.0, per_s)
            self._tokens = min(self._tokens, self._size)

    def _fill(self, now_ms: int) -> None:
        if self._at_ms is not None:
            gained = (now_ms - self._at_ms) * self.per_s / 1000
            self._tokens = min(self._size, self._tokens + max(0.0, gained))
        self._at_ms = now_ms
