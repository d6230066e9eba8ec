"""What is told of a call to an endpoint to whoever traces it: a port."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from halfpast_api.push.call_result import CallResult
from halfpast_api.push.envelope import Message


class AttemptTrace(Protocol):
    """Makes the call by `call`, which takes more headers for it."""

    async def around(
        self,
        message: Message,
        endpoint: str,
        attempt: int,
        call: Callable[[Mapping[str, str]], Awaitable[CallResult]],
    ) -> CallResult: ...
