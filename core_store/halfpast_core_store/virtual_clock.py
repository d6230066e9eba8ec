"""A clock that stands still until somebody moves it: for tests of delayed flows.

Wall time and monotonic time go together, so that a step is no jump of the clock. Who
waits for a moment sets an alarm; `step` goes from one alarm to the next, and so
everything happens at its own time, in due order, however far the clock is moved.
"""

from collections.abc import Callable

from .ports import Clock

Soon = Callable[[Callable[[], None]], object]
"""Calls something in a later turn of the event loop, such as `loop.call_soon`."""


class VirtualClock:
    """See `ports.Clock`. Never goes back. Belongs to one event loop; any thread may
    read it."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._alarms: dict[VirtualAlarm, None] = {}  # in the order they were made

    @property
    def now_ms(self) -> int:
        return self._now_ms

    def now_ns(self) -> int:
        return self._now_ms * 1_000_000

    def monotonic_ns(self) -> int:
        return self._now_ms * 1_000_000

    def alarm(self, wake: Callable[[], None], soon: Soon) -> "VirtualAlarm":
        """One that calls `wake`, to be closed when nobody wants it any more."""
        alarm = VirtualAlarm(self, wake, soon)
        self._alarms[alarm] = None
        return alarm

    def forget(self, alarm: "VirtualAlarm") -> None:
        self._alarms.pop(alarm, None)

    def next_ms(self) -> int | None:
        """When the next alarm is set to; None if none is."""
        times = [it.at_ms for it in self._alarms if it.at_ms is not None]
        return min(times) if times else None

    def step(self, until_ms: int) -> bool:
        """Go on to the next alarm and ring all that are due then; or, if there is none
        before, to `until_ms`, and give False."""
        next_ms = self.next_ms()
        if next_ms is None or next_ms > until_ms:
            self._now_ms = max(self._now_ms, until_ms)
            return False
        self._now_ms = max(self._now_ms, next_ms)
        for alarm in list(self._alarms):
            alarm.ring_if_due()
        return True


class VirtualAlarm:
    """See `ports.Alarm`."""

    def __init__(
        self, clock: VirtualClock, wake: Callable[[], None], soon: Soon
    ) -> None:
        self._clock = clock
        self._wake = wake
        self._soon = soon
        self.at_ms: int | None = None

    def set(self, at_ms: int | None) -> None:
        if at_ms == self.at_ms:
            return
        self.at_ms = at_ms
        if at_ms is not None and at_ms <= self._clock.now_ms:
            self._soon(self.ring_if_due)

    def ring_if_due(self) -> None:
        """Ring, once, if it is set to now or earlier."""
        if self.at_ms is not None and self.at_ms <= self._clock.now_ms:
            self.at_ms = None
            self._wake()

    def close(self) -> None:
        self.at_ms = None
        self._clock.forget(self)


def virtual(clock: Clock) -> VirtualClock | None:
    """The clock if it is such a one."""
    return clock if isinstance(clock, VirtualClock) else None
