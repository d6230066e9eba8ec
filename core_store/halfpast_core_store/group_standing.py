"""Where a consumer group stands on a topic."""

import msgspec

from .in_flight import InFlight


class GroupQueue(msgspec.Struct, array_like=True):
    """Where a group stands in a queue; lag = offset_max - offset + in_flight."""

    queue: int
    offset: int
    offset_min: int
    offset_max: int


class DescribeGroup(msgspec.Struct, array_like=True):
    """Also lists `limit` messages in flight behind `after`: a queue, and an offset.
    `ordered` as in the group's policy."""

    group: str
    topic: str
    limit: int = 0
    after: tuple[int, int] = (-1, -1)
    ordered: bool = False


class GroupDescription(msgspec.Struct, array_like=True):
    """`held_back` tells how many of those in flight wait for an earlier one of their
    key; only where the group was asked for as an ordered one."""

    queues: list[GroupQueue]
    in_flight: int
    known: bool = True
    messages: list[InFlight] = []
    held_back: int = 0
