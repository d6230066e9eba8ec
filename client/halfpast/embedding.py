"""The whole server in this process, for tests, on a clock that is moved by hand.

    with halfpast.embedded() as mq:
        mq.client.schedule("reminders", {"order": 7}, delay=timedelta(minutes=30))
        mq.advance(minutes=30)
        [message] = mq.client.pop("mailer", "reminders")

It is the real suite, with its real log in a folder that is deleted afterwards, its real
HTTP on a free port, and its event loop in a thread of its own. In a thread and not in a
process: so it starts in a fraction of a second, ends with the tests even if they are
killed, and is seen by debuggers.

The server comes through an entry point, so that this package needs nothing of it: see
`StartSuite` for what it is.
"""

import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Protocol

from halfpast.client import Client
from halfpast.errors import EmbeddedUnavailable
from halfpast.retry import RetryPolicy
from halfpast.sync import SyncClient

GROUP = "halfpast.embedded"
"""The entry points among which the server is found."""


class RunningSuite(Protocol):
    """A server that answers at `address` until it is stopped."""

    @property
    def address(self) -> str: ...

    def stop(self) -> None: ...


class StartSuite(Protocol):
    """Starts a server on a new folder. Its clock is virtual and shows `at_ms`, or now;
    or it is the machine's."""

    def __call__(
        self, folder: Path, *, at_ms: int | None, is_virtual: bool
    ) -> RunningSuite: ...


class Embedded:
    """A server of one's own, and a client of it."""

    def __init__(self, url: str, client: SyncClient) -> None:
        self.url = url
        self.client = client

    def async_client(self) -> Client:
        """Another client, for `async with`."""
        return Client(self.url, api_key="", namespace="")

    def now(self) -> datetime:
        """What the virtual clock shows. It stands still until it is moved."""
        return self.client.clock()

    def advance(
        self,
        by: timedelta = timedelta(0),
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
    ) -> datetime:
        """Move the clock forward, and return when everything that became due on the
        way has been delivered; gives what the clock shows then."""
        more = _span(days, hours, minutes, seconds, milliseconds)
        return self.client.advance_clock(by + more)

    def advance_to(self, moment: datetime) -> datetime:
        """The same, to a moment."""
        return self.client.advance_clock(to=moment)


class AsyncEmbedded:
    """A server of one's own, and a client of it on this event loop."""

    def __init__(self, url: str, client: Client) -> None:
        self.url = url
        self.client = client

    def async_client(self) -> Client:
        """Another client, for `async with`."""
        return Client(self.url, api_key="", namespace="")

    async def now(self) -> datetime:
        """As `Embedded.now`."""
        return await self.client.clock()

    async def advance(
        self,
        by: timedelta = timedelta(0),
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
    ) -> datetime:
        """As `Embedded.advance`."""
        more = _span(days, hours, minutes, seconds, milliseconds)
        return await self.client.advance_clock(by + more)

    async def advance_to(self, moment: datetime) -> datetime:
        """As `Embedded.advance_to`."""
        return await self.client.advance_clock(to=moment)


class Embedding:
    """What `embedded` gives: for `with`, or for `async with`."""

    def __init__(self, at_ms: int | None, is_virtual: bool) -> None:
        self._at_ms = at_ms
        self._is_virtual = is_virtual
        self._entered: AbstractContextManager[Embedded] | None = None
        self._begun: AbstractAsyncContextManager[AsyncEmbedded] | None = None

    def __enter__(self) -> Embedded:
        self._entered = self._run()
        return self._entered.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        entered, self._entered = self._entered, None
        if entered is not None:
            entered.__exit__(kind, error, trace)

    async def __aenter__(self) -> AsyncEmbedded:
        self._begun = self._run_async()
        return await self._begun.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        begun, self._begun = self._begun, None
        if begun is not None:
            await begun.__aexit__(kind, error, trace)

    @contextmanager
    def _run(self) -> Generator[Embedded]:
        with (
            self._suite() as url,
            SyncClient(url, retry=RETRY, api_key="", namespace="") as client,
        ):
            yield Embedded(url, client)

    @asynccontextmanager
    async def _run_async(self) -> AsyncGenerator[AsyncEmbedded]:
        # Starting takes a moment in which this loop stands still; so it needs no thread
        # of its own, and a test has nothing else to do.
        with self._suite() as url:
            async with Client(url, retry=RETRY, api_key="", namespace="") as client:
                yield AsyncEmbedded(url, client)

    @contextmanager
    def _suite(self) -> Generator[str]:
        start = _found()
        with tempfile.TemporaryDirectory(prefix="halfpast-") as folder:
            running = start(
                Path(folder) / "data", at_ms=self._at_ms, is_virtual=self._is_virtual
            )
            try:
                yield running.address
            finally:
                running.stop()


RETRY = RetryPolicy(unreachable_s=1.0)


def embedded(*, at: datetime | None = None, real_time: bool = False) -> Embedding:
    """The whole server in this process, for tests: use it in `with` or `async with`.

    Its clock shows `at`, or now, and stands still until `advance`; with `real_time` it
    is the machine's. Raises EmbeddedUnavailable where the server is not installed.
    """
    if at is not None and real_time:
        raise ValueError("nobody sets the machine's clock: give at or real_time")
    if at is not None and at.utcoffset() is None:
        raise ValueError(f"{at} does not say in which time zone; add tzinfo")
    since = None if at is None else at - datetime(1970, 1, 1, tzinfo=UTC)
    at_ms = None if since is None else since // timedelta(milliseconds=1)
    return Embedding(at_ms, not real_time)


def _found() -> StartSuite:
    from importlib.metadata import entry_points  # takes a while, and few need it

    for entry in entry_points(group=GROUP):
        try:
            start: StartSuite = entry.load()
        except ImportError as error:
            raise EmbeddedUnavailable(str(error)) from error
        return start
    raise EmbeddedUnavailable("no server is installed beside the client")


def _span(
    days: float, hours: float, minutes: float, seconds: float, milliseconds: float
) -> timedelta:
    return timedelta(
        days=days,
        hours=hours,
        minutes=minutes,
        seconds=seconds,
        milliseconds=milliseconds,
    )
