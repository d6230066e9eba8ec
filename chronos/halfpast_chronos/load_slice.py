"""How many timers are loaded in one go."""

SLICE_MIN = 32
SLICE_SIZE = 1024 * 1024


class LoadSlice:
    """A scan brings the bodies along: `count` is fewer where they are large."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self.count = min(SLICE_MIN, count_max)

    def loaded(self, size: int) -> None:
        """The last one took so many bytes."""
        count = self.count * 2 if size < SLICE_SIZE else self.count // 2
        self.count = min(max(count, SLICE_MIN), self._count_max)
