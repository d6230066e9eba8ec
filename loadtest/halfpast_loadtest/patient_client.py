"""A caller that outlives the server: it asks again until there is a real answer.

Right only for requests that may be repeated: with an idempotency key, to an
absolute time, a cancel, a read.
"""

import asyncio
import time
from collections.abc import Mapping

from halfpast_loadtest.errors import OutcomeUnknown, RequestFailed, WireError
from halfpast_loadtest.http_wire import Response, WireClient

AGAIN = frozenset({500, 502, 503, 504})


class PatientClient:
    """One caller. `unknown_count`: how often an answer failed to come."""

    def __init__(self, host: str, port: int, *, patience_s: float = 30.0) -> None:
        self._client = WireClient(host, port)
        self._patience_s = patience_s
        self.unknown_count = 0

    async def request(
        self,
        method: str,
        path: str,
        body: object = b"",
        *,
        headers: Mapping[str, str] | None = None,
        want: frozenset[int] = frozenset({200, 201}),
    ) -> Response:
        """An answer whose status is in `want`.

        Raises RequestFailed for another one, WireError or RequestFailed when
        the patience ends.
        """
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                answer = await self._client.request(method, path, body, headers=headers)
                if answer.status in want:
                    return answer
                if answer.status not in AGAIN or time.monotonic() > deadline:
                    what = f"{method} {path}"
                    raise RequestFailed(what, answer.status, answer.body)
            except WireError as error:
                self.unknown_count += isinstance(error, OutcomeUnknown)
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(0.03)

    def close(self) -> None:
        self._client.close()
