"""What a test does without something that it needs and cannot have."""

import os
from typing import NoReturn

import pytest


def unavailable(reason: str) -> NoReturn:
    """Skip the test, saying why; in CI, where all can be had, fail it."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
