"""The virtual clock: looked at, and moved. The machine's clock cannot be moved."""

from collections.abc import Callable
from typing import Final

import msgspec

from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.clock.mover import ClockMover, Moved
from halfpast_api.problems import Refusal, refuse_field
from halfpast_api.reading import Reader
from halfpast_api.times import (
    BadTime,
    due_ms_of,
    parse_duration,
    parse_instant,
    render_instant,
)

_DEPTH_MAX: Final = 16
_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999: no later moment can be written."""


class AdvanceBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """How far the clock is moved: by a duration, or to a moment; exactly one."""

    by: str | None = None
    by_ms: int | None = None
    to: str | None = None


class ClockView(msgspec.Struct):
    """What the virtual clock shows. It stands still until it is moved."""

    now: str
    now_ms: int


class AdvancedView(msgspec.Struct):
    """What it shows now. If `reached` is false there was more to do than fits into one
    request: ask again with `to`."""

    now: str
    now_ms: int
    moved_ms: int
    stops: int
    reached: bool


class ClockHandlers:
    """Handlers for the clock. Without a `mover` time is the machine's."""

    def __init__(self, mover: ClockMover | None) -> None:
        self._mover = mover
        self._reader = Reader(AdvanceBody, _DEPTH_MAX)

    async def show(self, call: Call) -> Answer:
        """GET /v1/clock"""
        now_ms = self._virtual().now_ms
        return call.answer(200, ClockView(render_instant(now_ms), now_ms))

    async def advance(self, call: Call) -> Answer:
        """POST /v1/clock:advance"""
        target_ms = _target(call.read(self._reader))
        moved = await self._virtual().move(target_ms)
        return call.answer(200, _view(moved))

    def _virtual(self) -> ClockMover:
        if self._mover is None:
            raise Refusal(
                "clock_not_virtual",
                "this server goes by the machine's clock, which nobody moves; one that "
                "can be moved, for tests: halfpast dev --clock virtual",
            )
        return self._mover


def _target(body: AdvanceBody) -> Callable[[int], int]:
    """Makes the moment that is meant of the present one. Raises Refusal."""
    given = [it for it in (body.by, body.by_ms, body.to) if it is not None]
    if len(given) != 1:
        raise Refusal(
            "several_times" if given else "missing_field",
            'give exactly one of by ("PT30M"), by_ms and to (a moment)',
        )
    if body.to is not None:
        until_ms = _read("/to", parse_instant, body.to)
        return lambda _: _checked(until_ms)
    if body.by_ms is not None:
        by_ms = body.by_ms
        if by_ms < 0:
            raise refuse_field(
                "invalid_time", "/by_ms", f"{by_ms} is negative; clocks go forward"
            )
    else:
        assert body.by is not None
        by_ms = due_ms_of(_read("/by", parse_duration, body.by))
    return lambda now_ms: _checked(now_ms + by_ms)


def _read(pointer: str, parse: Callable[[str], int], text: str) -> int:
    try:
        return parse(text)
    except BadTime as error:
        raise refuse_field("invalid_time", pointer, str(error)) from None


def _checked(until_ms: int) -> int:
    if until_ms > _MS_MAX:
        raise Refusal("invalid_time", "the clock ends with the year 9999")
    return until_ms


def _view(moved: Moved) -> AdvancedView:
    return AdvancedView(
        now=render_instant(moved.now_ms),
        now_ms=moved.now_ms,
        moved_ms=moved.now_ms - moved.from_ms,
        stops=moved.stops,
        reached=moved.is_there,
    )
