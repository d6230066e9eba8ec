"""The shape of a wheel, and how one timer is packed into 64 bits.

    | remainder, 24 bits | handle, 40 bits |        an entry of a slot

The remainder is how many ticks after the start of its slot the timer is due. With
the slot's place in the wheel it gives back the whole deadline, so none is stored.
"""

from dataclasses import dataclass

from halfpast_wheel.errors import InvalidConfig

HANDLE_BITS = 40
HANDLE_MASK = (1 << HANDLE_BITS) - 1
REMAINDER_BITS = 64 - HANDLE_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelConfig:
    """How finely a wheel counts, how far it reaches, and how much a call may do.

    `tick_ms`: length of a tick. Deadlines are rounded up to whole ticks.
    `slot_bits`: a level has 2 to the power of this slots.
    `level_count`: the levels together span `slot_bits * level_count` bits of ticks:
        2**30 ms, or 12.4 days, unless told otherwise. Later timers wait outside.
    `cascade_moves_max`: timers that one `advance` may move to a finer level.
    `upkeep_moves_max`: entries touched in one piece of work that can wait: moving what
        comes next ahead of its time, and sweeping. So many tombstones more than
        timers are tolerated, too.

    Raises `InvalidConfig` where a remainder would not fit into its bits.
    """

    tick_ms: int = 1
    slot_bits: int = 10
    level_count: int = 3
    cascade_moves_max: int = 4096
    upkeep_moves_max: int = 1024

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise InvalidConfig(f"{name} must be at least 1")
        span_bits = self.slot_bits * (self.level_count - 1)
        if span_bits > REMAINDER_BITS:
            raise InvalidConfig(
                f"a slot of the last level would span {span_bits} bits of ticks, and "
                f"only {REMAINDER_BITS} fit: take fewer levels or slots"
            )
