"""A chunk is settled event by event, whatever the server refuses and when."""

from collections.abc import Sequence
from itertools import chain, combinations

import pytest

from halfpast import ApiProblem, RetryPolicy
from halfpast.errors import FieldError, Problem, api_problem
from halfpast_api.transfer.chunk import Chunk
from halfpast_api.transfer.delivery import Delivered, Delivery
from halfpast_api.transfer.import_calls import ImportCalls
from halfpast_api.transfer.line import Position
from halfpast_api.transfer.progress import Counts

EVENTS = [b"e0", b"e1", b"e2", b"e3", b"e4"]


class Crash(Exception):
    """The import is killed here."""


class Server(ImportCalls):
    """Stores events as the API does: atomic batches, idempotency keys.

    It refuses the events in `bad`; `crash_after` requests, the answer is lost.
    """

    def __init__(self, bad: set[bytes], errors_max: int = 100) -> None:
        super().__init__("http://nowhere", RetryPolicy())
        self.bad = bad
        self.errors_max = errors_max
        self.stored: list[bytes] = []
        self.keys: dict[str, tuple[bytes, ...]] = {}
        self.crash_after: int | None = None

    async def store(self, events: Sequence[bytes], idempotency_key: str) -> Counts:
        replayed = idempotency_key in self.keys
        if replayed:
            assert self.keys[idempotency_key] == tuple(events)
        else:
            self._refuse(events)
            self.keys[idempotency_key] = tuple(events)
            self.stored += events
        if self.crash_after is not None:
            self.crash_after -= 1
            if self.crash_after < 0:
                raise Crash
        recognised = len(events) if replayed else 0
        return Counts(stored=len(events), recognised=recognised)

    def _refuse(self, events: Sequence[bytes]) -> None:
        errors = [
            FieldError(f"/events/{index}/data", f"{event!r} is bad")
            for index, event in enumerate(events)
            if event in self.bad
        ]
        if errors:
            raise problem(422, "invalid_data", errors[: self.errors_max])


def problem(
    status: int, code: str, errors: Sequence[FieldError] = (), retryable: bool = False
) -> ApiProblem:
    return api_problem(
        Problem(status=status, code=code, errors=tuple(errors), retryable=retryable)
    )


class Notes:
    """What the journal keeps."""

    def __init__(self) -> None:
        self.apart: list[int] = []

    def note(self, chunk: int, indexes: list[int]) -> None:
        assert chunk == 7
        self.apart = list(indexes)


async def deliver(server: ImportCalls, notes: Notes) -> Delivered:
    chunk = Chunk(
        number=7,
        end=Position(1, 15),
        line_count=5,
        events=EVENTS,
        numbers=[11, 12, 13, 14, 15],
    )
    return await Delivery(server, "import-x", chunk, notes.apart, notes.note).run()


SUBSETS = list(chain.from_iterable(combinations(range(5), size) for size in range(6)))


@pytest.mark.asyncio
@pytest.mark.parametrize("bad", SUBSETS)
@pytest.mark.parametrize("errors_max", [1, 2, 100])
async def test_all_good_ones_are_stored_once(
    bad: tuple[int, ...], errors_max: int
) -> None:
    server = Server({EVENTS[index] for index in bad}, errors_max)
    done = await deliver(server, Notes())
    good = [event for index, event in enumerate(EVENTS) if index not in bad]
    assert sorted(server.stored) == good
    assert [it.line for it in done.refused] == [11 + index for index in bad]
    counts = done.counts
    assert (counts.lines, counts.stored) == (5, len(good))
    assert (counts.refused, counts.recognised) == (len(bad), 0)


@pytest.mark.asyncio
async def test_the_reason_is_about_the_event() -> None:
    done = await deliver(Server({b"e3"}), Notes())
    (line,) = done.refused
    assert (line.code, line.raw) == ("invalid_data", b"e3")
    assert line.reason == "b'e3' is bad (at /data)"


@pytest.mark.asyncio
@pytest.mark.parametrize("crash_after", range(4))
async def test_a_run_after_a_crash_adds_nothing_twice(crash_after: int) -> None:
    server, notes = Server({b"e1", b"e3"}), Notes()
    server.crash_after = crash_after
    crashed = False
    try:
        await deliver(server, notes)
    except Crash:
        crashed = True
    server.crash_after = None
    done = await deliver(server, notes)
    assert crashed == (crash_after < 1)
    assert sorted(server.stored) == [b"e0", b"e2", b"e4"]
    assert done.counts.recognised == 3
    assert [it.line for it in done.refused] == [12, 14]


@pytest.mark.asyncio
async def test_what_the_server_takes_by_now_is_not_stored_twice() -> None:
    """Settings of a topic change between the crash and the next run."""
    server, notes = Server({b"e1"}), Notes()
    server.crash_after = 0
    with pytest.raises(Crash):
        await deliver(server, notes)
    server.crash_after, server.bad = None, set()
    done = await deliver(server, notes)
    assert sorted(server.stored) == EVENTS
    assert (done.counts.stored, done.refused) == (5, [])


class Moody(Server):
    """Says of the whole batch what is a matter of the moment."""

    def __init__(self, refusal: ApiProblem) -> None:
        super().__init__(set())
        self.refusal = refusal

    def _refuse(self, events: Sequence[bytes]) -> None:
        raise self.refusal


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "refusal",
    [
        problem(429, "too_many_pending", [FieldError("/events/0", "full")], True),
        problem(507, "store_full", [FieldError("/events/0", "full")], True),
        problem(413, "body_too_large"),
        problem(422, "idempotency_key_reused"),
    ],
)
async def test_what_is_not_about_the_events_ends_the_import(
    refusal: ApiProblem,
) -> None:
    notes = Notes()
    with pytest.raises(ApiProblem) as caught:
        await deliver(Moody(refusal), notes)
    assert caught.value is refusal
    assert notes.apart == []
