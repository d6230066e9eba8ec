"""What an import asks of a server."""

from collections.abc import Sequence

import msgspec

from halfpast import ApiProblem, UnexpectedAnswer
from halfpast.transport import Repeat
from halfpast_api.open_calls import OpenCalls
from halfpast_api.transfer.progress import Counts

_POINTER = "/events/"


class _Item(msgspec.Struct):
    status: int
    state: str


class _Results(msgspec.Struct):
    results: list[_Item]


class ImportCalls(OpenCalls):
    """Calls of one server; used inside `async with`. Raises a HalfpastError."""

    async def knock(self) -> None:
        """Whether somebody is there. Raises ServerUnreachable soon if not."""
        await self._read("/healthz")

    async def store(self, events: Sequence[bytes], idempotency_key: str) -> Counts:
        """Store all of these events (JSON), or none: then it raises ApiProblem."""
        answer = await self._send(
            "POST",
            "/v1/events:batch",
            repeat=Repeat.SAME_ANSWER,
            body=b'{"events":[' + b",".join(events) + b'],"atomic":true}',
            headers={"Idempotency-Key": idempotency_key},
        )
        items = answer.read(_Results).results
        if len(items) != len(events) or any(item.status >= 300 for item in items):
            why = f"{len(items)} results for {len(events)} events, or some refused"
            raise UnexpectedAnswer(str(answer.call), answer.status, why)
        stored = sum(item.state == "stored" for item in items)
        replayed = answer.headers.get("Idempotency-Replayed", "") == "true"
        return Counts(
            stored=stored,
            scheduled=len(items) - stored,
            recognised=len(items) if replayed else 0,
        )


def refused_indexes(problem: ApiProblem) -> list[int]:
    """Which events of a batch a problem is about; empty if it is about all of it."""
    found: set[int] = set()
    for error in problem.errors:
        if error.pointer.startswith(_POINTER):
            index = error.pointer.removeprefix(_POINTER).partition("/")[0]
            if index.isdigit():
                found.add(int(index))
    return sorted(found)
