"""Bugs planted on purpose: each must be found, or the simulator proves nothing.

They live here and not in the product: each is a subclass, or a switch of the
simulated clients, that does what a careless change might do.
"""

from collections.abc import Callable, Iterable
from typing import Any

from tests.simulation.sim_order_bugs import ORDER_BUGS
from tests.simulation.sim_settings import Focus
from tests.simulation.sim_timer_bugs import TIMER_BUGS
from tests.simulation.sim_transaction_bugs import TRANSACTION_BUGS

from halfpast_chronos.config import ChronosConfig
from halfpast_chronos.core import DelayCore, Firing
from halfpast_core_store import keys
from halfpast_core_store.broker import Append, Dedup, FollowedFrame
from halfpast_core_store.pending import Done, Sealed
from halfpast_core_store.ports import Clock, Index
from halfpast_core_store.record import RecordKind, decode_record
from halfpast_core_store.store import Store


class IndexAhead(Store):
    """The index says that a frame is applied before it is."""

    def complete(self, sealed: Sealed) -> list[int]:
        header = sealed.write.draft.header
        batch = self._index.batch()
        end = header.position + header.length
        batch.put(
            keys.APPLIED,
            keys.PROGRESS.pack(header.position, end, header.stored_ms, header.epoch),
        )
        self._index.write(batch)
        return super().complete(sealed)


class ForgetsKeys(Store):
    """Idempotency keys are remembered in memory only."""

    def _replayed(self, asked: Dedup, done: Done) -> bool:
        if asked.key in self._dedup_waiting:
            return super()._replayed(asked, done)
        return False


class IgnoresFence(Store):
    """A Delay Server that has died may still append."""

    def _check_fence(self, request: Append) -> None:
        return


class WritesBeforeSync(Store):
    """The next frame is written while the last one is not synced: here, simply
    never synced at all."""

    def write(self, sealed: Sealed) -> None:
        segment = sealed.write.segment.file
        sync = segment.sync
        segment.sync = lambda: None  # type: ignore[method-assign]
        try:
            super().write(sealed)
        finally:
            segment.sync = sync  # type: ignore[method-assign]


class FiresTooSoon(DelayCore):
    """The timer is gone from the index before its message is durable."""

    def fire(self) -> Firing | None:
        firing = super().fire()
        if firing is not None:
            records = [run.records for run in firing.request.runs]
            fired = [some[0] for some in records if some[0][4] == RecordKind.FIRED]
            frame = FollowedFrame(0, 0, self.now_ms(), [*fired, b""])
            self.apply_slice(frame, 0, len(fired))  # not all, so it stays where it is
        return firing


class RoundsDown(DelayCore):
    """The wheel counts in steps of 8 ms and rounds down; nobody looks again."""

    def __init__(
        self, index: Index, clock: Clock, config: ChronosConfig, **options: bool
    ) -> None:
        super().__init__(index, clock, config, **options)
        wheel = self.horizon._wheel._wheel  # pyright: ignore[reportPrivateUsage]
        insert, insert_many = wheel.insert, wheel.insert_many

        def rounded(deadline_ms: int, handle: int) -> None:
            insert(deadline_ms - deadline_ms % 8, handle)

        def all_rounded(items: Iterable[tuple[int, int]]) -> None:
            insert_many([(at - at % 8, handle) for at, handle in items])

        wheel.insert = rounded  # type: ignore[method-assign]
        wheel.insert_many = all_rounded  # type: ignore[method-assign]

    def fire(self) -> Firing | None:
        firing = super().fire()
        if firing is not None:
            firing.request.due_max_ms = 0
        return firing


class IgnoresClaims(DelayCore):
    """A timer fires although somebody is deciding about it."""

    def fire(self) -> Firing | None:
        claims = self.claims
        self.claims = set()
        firing = super().fire()
        self.claims |= claims
        return firing


class ForgetsCancels(DelayCore):
    """A cancel that is applied again after a crash is passed over."""

    def apply_slice(self, frame: FollowedFrame, start: int, stop: int) -> list[bytes]:
        if not self.measures:
            frame = FollowedFrame(
                frame.position,
                frame.end,
                frame.stored_ms,
                [
                    record
                    for record in frame.records
                    if decode_record(record).kind != RecordKind.CANCEL
                ],
            )
        return super().apply_slice(frame, start, stop)


class HoldsTooLittle(DelayCore):
    """The log is given up although the index has not noted how far it is."""

    def save_position(self) -> int:
        return self.position


Planted = dict[str, Any]
BROKER_BUGS: dict[str, Planted] = {
    "acknowledges before fsync": {"durable": False},
    "never syncs": {"make_store": WritesBeforeSync},
    "fires before durable": {"make_core": FiresTooSoon},
    "wheel rounds down": {"make_core": RoundsDown},
    "cancel answers before its outcome is durable": {"answer_early": True},
    "index ahead of its data": {"make_store": IndexAhead},
    "idempotency keys lost on restart": {"make_store": ForgetsKeys},
    "fence ignored": {"make_store": IgnoresFence},
    "fires what is being decided": {"make_core": IgnoresClaims},
    "log given up too early": {"make_core": HoldsTooLittle},
    "cancels lost on restart": {"make_core": ForgetsCancels},
    **ORDER_BUGS,
    **TRANSACTION_BUGS,
}
BUGS: dict[str, Planted] = {
    name: {"focus": Focus.BROKER, **planted}
    for name, planted in {**BROKER_BUGS, **TIMER_BUGS}.items()
}

MakeStore = Callable[..., Store]
