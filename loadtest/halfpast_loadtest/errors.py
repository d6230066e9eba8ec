"""What an outside client of Halfpast meets, and what it may conclude.

LoadtestError
├── ServerNotReady      it did not answer /readyz in time, or it ended
├── WireError
│   ├── NotSent         no connection: certainly nothing has happened
│   ├── OutcomeUnknown  sent, but the answer never came: anything may have
│   └── BadResponse     the answer is not HTTP as this client reads it
├── RequestFailed       an answer of another status than the caller needs
├── NotEnoughRoom       the disk is too small for what the bench will write
├── PostgresUnavailable there is no PostgreSQL to compare with
├── ClientUnavailable   RocketMQ's own client cannot be had here
├── ClientFailed        RocketMQ's own client did not do what it was asked to
├── UnknownBench        no benchmark has this name
└── BadSetting          a benchmark does not know this setting or its value
"""


class LoadtestError(Exception):
    """Base of all that goes wrong here."""


class ServerNotReady(LoadtestError):
    """The server does not answer; `log` is the end of what it printed."""

    def __init__(self, reason: str, log: str) -> None:
        super().__init__(reason, log)
        self.reason = reason
        self.log = log

    def __str__(self) -> str:
        return f"the server is not ready: {self.reason}\n{self.log}".rstrip()


class WireError(LoadtestError):
    """A request without a usable answer."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class NotSent(WireError):
    """There was no connection, so the request cannot have had an effect."""


class OutcomeUnknown(WireError):
    """The request left, no answer came. Retry with the same idempotency key."""


class BadResponse(WireError):
    """The server's bytes are no HTTP/1.1 answer with a Content-Length."""


class RequestFailed(LoadtestError):
    """The server answered `status` where something else was needed."""

    def __init__(self, what: str, status: int, body: bytes) -> None:
        super().__init__(what, status, body)
        self.what = what
        self.status = status
        self.body = body

    def __str__(self) -> str:
        return f"{self.what}: status {self.status}, {self.body[:400]!r}"


class NotEnoughRoom(LoadtestError):
    """Nothing was started: the folder's disk has not the bytes that are needed."""

    def __init__(self, folder: str, needed: int, free: int) -> None:
        super().__init__(folder, needed, free)
        self.folder = folder
        self.needed = needed
        self.free = free

    def __str__(self) -> str:
        return (
            f"this needs about {self.needed / 1e9:.1f} GB in {self.folder}, where "
            f"{self.free / 1e9:.1f} GB are free; give another folder=, or a "
            "smaller count="
        )


class PostgresUnavailable(LoadtestError):
    """It is not there and cannot be installed, or it does not start."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"no PostgreSQL: {self.reason}"


class ClientUnavailable(LoadtestError):
    """RocketMQ's own client cannot be installed; `reason` is what was said."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"RocketMQ's client cannot be had here: {self.reason}"


class ClientFailed(LoadtestError):
    """The process with RocketMQ's own client failed; `reason` is what it said."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"RocketMQ's client failed: {self.reason}"


class UnknownBench(LoadtestError):
    """No benchmark has this name."""

    def __init__(self, name: str, names: tuple[str, ...]) -> None:
        super().__init__(name, names)
        self.name = name
        self.names = names

    def __str__(self) -> str:
        return f"there is no bench {self.name!r}; there are {', '.join(self.names)}"


class BadSetting(LoadtestError):
    """A setting that the benchmark does not have, or a value it cannot read."""

    def __init__(self, name: str, value: str, known: tuple[str, ...]) -> None:
        super().__init__(name, value, known)
        self.name = name
        self.value = value
        self.known = known

    def __str__(self) -> str:
        return (
            f"cannot use setting {self.name}={self.value}; "
            f"this bench knows {', '.join(self.known)}"
        )
