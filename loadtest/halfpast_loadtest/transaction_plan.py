"""What the producers of a transactional load do: the same for the same seed.

Order number 17 of a producer is always the same order, whatever was killed before.
An attempt at it is not: each has a word of its own, which is part of the serials of
its messages, so that messages of an attempt that came to nothing are known again.
"""

import random
from dataclasses import dataclass
from enum import Enum

import msgspec

from halfpast_loadtest.payloads import ITEMS, NAMES

CREATED = "order-created"
RESERVED = "stock-reserved"
TIMEOUT = "order-timeout"
TOPICS = (CREATED, RESERVED, TIMEOUT)


class Course(Enum):
    """How an order goes, if nobody is killed."""

    COMMITTED = "committed"  # both phases, and the local transaction between them
    REFUSED = "refused"  # the local transaction fails, and the server is told
    FORGOTTEN = "forgotten"  # committed locally, the server is never told
    VANISHED = "vanished"  # fails locally, the server is never told
    LATE = "late"  # the check-back comes before the local transaction


SHARES = {
    Course.COMMITTED: 70,
    Course.REFUSED: 12,
    Course.FORGOTTEN: 8,
    Course.VANISHED: 5,
    Course.LATE: 5,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMessage:
    """One message of an order. `delay_ms` is 0 for one that is due with the commit."""

    topic: str
    delay_ms: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOrder:
    """One order, which becomes one transaction, or several attempts at it."""

    number: int
    course: Course
    messages: tuple[PlannedMessage, ...]

    @property
    def is_placed(self) -> bool:
        """Whether it has to be in the local database in the end."""
        return self.course not in (Course.REFUSED, Course.VANISHED)


def planned_order(
    seed: int, producer: str, number: int, delay_ms_max: int
) -> PlannedOrder:
    """The order of this number of a producer."""
    chance = random.Random(f"{seed}/{producer}/{number}")
    [course] = chance.choices([*SHARES], [*SHARES.values()])
    messages = [PlannedMessage(topic=CREATED, delay_ms=0, text=chance.choice(NAMES))]
    messages += [
        PlannedMessage(topic=RESERVED, delay_ms=0, text=chance.choice(ITEMS))
        for _ in range(chance.choice((0, 0, 1, 2)))
    ]
    if chance.random() < 0.5:
        delay_ms = chance.randint(1, delay_ms_max)
        messages.append(PlannedMessage(topic=TIMEOUT, delay_ms=delay_ms, text=""))
    return PlannedOrder(number=number, course=course, messages=tuple(messages))


def serial_of_message(producer: str, number: int, attempt: str, index: int) -> str:
    """By what a message is known again wherever it turns up."""
    return f"{producer}-{number:05d}-{attempt}-{index}"


def message_data(serial: str, number: int, message: PlannedMessage) -> bytes:
    """The JSON text of a message, which holds its serial."""
    document = {"serial": serial, "order": number, "text": message.text}
    return msgspec.json.encode(document)
