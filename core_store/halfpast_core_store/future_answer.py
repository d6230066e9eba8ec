"""Answers of the store for those who await them on an event loop."""

import asyncio
from typing import TypeVar

Answer = TypeVar("Answer")


def tell(future: asyncio.Future[Answer], answer: Answer | Exception) -> None:
    """Tell whoever awaits the future, if anybody still does."""
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
