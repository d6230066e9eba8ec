"""Tracing of a process, if the environment asks for it and the packages are there."""

import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import structlog

from halfpast_api.tracing.wish import is_wanted

if TYPE_CHECKING:
    from halfpast_api.tracing.tracing import Tracing

log = structlog.get_logger("halfpast.tracing")


def open_tracing(stack: AsyncExitStack, service: str) -> "Tracing | None":
    """None, and nothing loaded, unless it is wanted. Without the packages it goes on
    without traces, and says so: a cluster may set the variables for everybody."""
    if not is_wanted(os.environ):
        return None
    try:
        from halfpast_api.tracing.tracing import Tracing
    except ImportError as error:
        log.warning(
            "traces are asked for, and cannot be made",
            missing=error.name,
            hint="pip install 'halfpast[otel]', or set OTEL_SDK_DISABLED=true",
        )
        return None
    tracing = Tracing(service)
    stack.push_async_callback(tracing.close)
    return tracing
