"""What is asked about dead letters, and what is answered."""

import msgspec


class Revive(msgspec.Struct, array_like=True):
    """Offer dead letters of a group to it again, as if for the first time; or, with
    `discard`, be done with them. `offsets` are those in its dead-letter topic."""

    group: str
    offsets: list[int]
    discard: bool = False


class Revived(msgspec.Struct, array_like=True):
    """One code per offset: empty for success; `not_dead` (dealt with already, or never
    there), `gone` (the log does not keep the message any more), `too_many_between`
    (too many older dead letters are left)."""

    codes: list[str]
