"""What a caller can do wrong with a wheel. Nothing is changed where one is raised.

    WheelError
    ├── InvalidConfig       these sizes do not go together
    ├── HandleOutOfRange    a handle that does not fit into its bits
    └── HandlePending       a handle that already has a timer

Arguments are plain values, so that an error pickles.
"""


class WheelError(Exception):
    """Base of all errors that the timing wheel raises on purpose."""


class InvalidConfig(WheelError):
    """These sizes do not go together; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"no wheel can have this shape: {self.reason}"


class HandleOutOfRange(WheelError):
    """A handle is a number of `bits` bits, and not negative."""

    def __init__(self, handle: int, bits: int) -> None:
        super().__init__(handle, bits)
        self.handle = handle
        self.bits = bits

    def __str__(self) -> str:
        return f"handle {self.handle} is outside 0 to 2**{self.bits} - 1"


class HandlePending(WheelError):
    """The handle has a timer that is pending; cancel that one first."""

    def __init__(self, handle: int) -> None:
        super().__init__(handle)
        self.handle = handle

    def __str__(self) -> str:
        return f"handle {self.handle} is pending already; cancel it first"
