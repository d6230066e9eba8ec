"""How many messages a large request has, before they all become objects."""

from typing import Final

import msgspec
from msgspec import Raw

from halfpast_api.call import Call
from halfpast_api.reading import Format

_SIZE_MIN: Final = 1024 * 1024  # bytes; smaller ones are read at once


class _Messages(msgspec.Struct):
    messages: list[Raw] = []


class _Transactions(_Messages):
    transactions: list[_Messages] = []


class MessageCounter:
    """Looks at requests that may have more than `count_max` messages."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._json = msgspec.json.Decoder(_Transactions)
        self._msgpack = msgspec.msgpack.Decoder(_Transactions)

    def suspicion(self, call: Call) -> int:
        """How many messages there are if that is too many, else 1.

        What cannot be read at all counts as 1 too: reading it says what is wrong.
        """
        body = call.body
        if len(body) <= _SIZE_MIN or body.count(b"topic") <= self._count_max:
            return 1
        decoder = self._json if call.form is Format.JSON else self._msgpack
        try:
            found = decoder.decode(body)
        except (msgspec.DecodeError, RecursionError):
            return 1
        count = len(found.messages) + sum(len(it.messages) for it in found.transactions)
        return count if count > self._count_max else 1
