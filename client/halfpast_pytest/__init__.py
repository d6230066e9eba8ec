"""The fixture `halfpast` for pytest: a server for one test, on a virtual clock.

pytest finds it by itself wherever Halfpast is installed. It is a package of its own, so
that nothing of the client is imported in a run that does not ask for it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from halfpast import Embedded


@pytest.fixture
def halfpast() -> "Iterator[Embedded]":
    """A server of its own for this test: `halfpast.client`, `halfpast.advance(...)`,
    `halfpast.now()`, `halfpast.url`, `halfpast.async_client()`."""
    from halfpast import embedded

    with embedded() as mq:
        yield mq
