"""A real Chromium for tests, driven by Playwright, and an API for it to visit.

A test module says `pytest_plugins = ["tests.integration.browser"]` and asks for
`browser` (one for all its tests) and `site` (starts APIs on made-up results). Debian's
package is installed if there is none and we are root there; else the tests are
skipped, or fail in CI.

PYTEST_DONT_REWRITE: tests import its names before it is a plugin.
"""

import asyncio
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright
from tests.integration.api_server import real_services, serve
from tests.integration.unavailable import unavailable

from halfpast_api.config import ApiConfig
from halfpast_loadtest.debian_packages import install

Site = Callable[[Path], str]

NAMES = ("chromium", "chromium-browser", "google-chrome")
PACKAGES = ("chromium", "fonts-dejavu-core")
START_TIMEOUT_S = 30.0
# As root Chromium has no sandbox; it visits nothing but pages of ours.
OPTIONS = ("--no-sandbox", "--disable-dev-shm-usage")


# Of one module only: as long as it runs, Playwright has an event loop running in this
# thread, and no other test could run one of its own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser without a window."""
    program = _find() or _install()
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=program, args=list(OPTIONS)
        )
        yield running
        running.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Gives the address of a new API whose metadata are a copy of the given file."""
    with ExitStack() as stack:

        def start(database: Path) -> str:
            folder = tmp_path_factory.mktemp("site")
            shutil.copy(database, folder / "metadata.sqlite")
            thread = _ApiThread(folder)
            stack.callback(thread.stop)
            return thread.start()

        yield start


def axe_source() -> str:
    """The script that finds what keeps people from using a page."""
    package = find_spec("axe_playwright_python")
    assert package is not None
    assert package.origin is not None
    return (Path(package.origin).parent / "axe.min.js").read_text("utf-8")


class _ApiThread:
    """The API on a loop of its own: Playwright keeps the one of the test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._address = ""
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="site")

    def start(self) -> str:
        self._thread.start()
        assert self._started.wait(START_TIMEOUT_S), "the API does not start"
        if self._failure is not None:
            raise self._failure
        return self._address

    def stop(self) -> None:
        if self._loop is not None and self._stopped is not None:
            self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as failure:
            self._failure = failure
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        async with AsyncExitStack() as stack:
            services = await stack.enter_async_context(real_services(self._folder))
            api = await stack.enter_async_context(
                serve(*services, self._folder, ApiConfig(port=0))
            )
            self._address = api.address
            self._started.set()
            await self._stopped.wait()


def _find() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


def _install() -> str:
    """Skip the test where there is none and none can be had; fail it in CI."""
    failure = install(PACKAGES, lambda: _find() is not None)
    return _find() or unavailable(failure)
