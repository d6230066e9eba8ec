"""What goes wrong between two processes, and how exceptions cross over.

RpcError
├── Unavailable         nobody there, or stopping: the call was not begun
├── ConnectionLost      broken in the middle of a call: outcome unknown
├── RemoteFailure       an exception that has no code: outcome unknown
├── ProtocolMismatch    another service, or another release
├── FrameTooLarge       a request or a reply exceeds the largest frame
├── AddressInUse        another process serves there
└── BadAddress          not an address, or not one that can be used
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from halfpast_core_store.errors import CoreError, Overloaded, StoreFailed

ERROR_SIZE_MAX: Final = 1024 * 1024  # of an exception's arguments, in bytes


class RpcError(CoreError):
    """Base of what the connection itself raises."""

    code = "rpc_error"


class Unavailable(RpcError):
    """The service cannot be reached or is stopping. The call was not begun."""

    code = "unavailable"

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return f"the service at {self.address} is unavailable: {self.reason}"


class ConnectionLost(RpcError):
    """The connection broke while the call was in flight.

    The outcome is unknown: the server may have done all of it, a part, or
    nothing. Repeat the call only if it can be repeated without harm.
    """

    code = "connection_lost"

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"the connection to {self.address} was lost ({self.reason}); "
            "whether the call took effect is unknown"
        )


class RemoteFailure(RpcError):
    """The server met an exception that it does not know. The outcome is unknown.

    It is a defect of the server, or the two ends are of different releases. The
    server has logged the exception with its traceback.
    """

    code = "remote_failure"

    def __init__(self, method: str, text: str) -> None:
        super().__init__(method, text)
        self.method = method
        self.text = text

    def __str__(self) -> str:
        return f"{self.method} failed: {self.text}"


class ProtocolMismatch(RpcError):
    """Whoever answers at this address is not the service that was expected."""

    code = "protocol_mismatch"

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return f"cannot talk to {self.address}: {self.reason}"


class FrameTooLarge(RpcError):
    """A request or a reply exceeds the largest frame; it was not sent.

    For a reply the call has taken effect: ask for less.
    """

    code = "frame_too_large"

    def __init__(self, size: int, size_max: int) -> None:
        super().__init__(size, size_max)
        self.size = size
        self.size_max = size_max

    def __str__(self) -> str:
        return f"a frame would take {self.size} bytes, the limit is {self.size_max}"


class AddressInUse(RpcError):
    """Another process serves at this address."""

    code = "address_in_use"

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address

    def __str__(self) -> str:
        return f"another process is serving at {self.address}"


class BadAddress(RpcError):
    """Not an address of the form unix:/path or tcp:host:port, or unusable."""

    code = "bad_address"

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return f"cannot use the address {self.address!r}: {self.reason}"


UNSURE: Final = (ConnectionLost, Unavailable, RemoteFailure, StoreFailed)
"""After these a projection does not know what of its own is in the log."""


class ErrorRegistry:
    """Turns the exceptions below `base` into bytes and back, by their `code`.

    A class takes part if it has a `code` of its own and is made from its `args`,
    which must be plain values: a 64-bit int, float, str, bytes, bool or None, or
    a list of them (a tuple arrives as a list).
    """

    def __init__(self, base: type[Exception] = CoreError) -> None:
        self._bases = (base, RpcError, Overloaded)  # what the server itself raises
        self._classes: dict[str, type[Exception]] = {}
        self._walk(self._bases)

    def to_wire(self, error: Exception) -> tuple[str, tuple[Any, ...]] | None:
        """The code and the arguments, or None if the client could not rebuild it."""
        code: object = type(error).__dict__.get("code")
        if not isinstance(error, self._bases) or not isinstance(code, str):
            return None
        try:
            size = len(msgspec.msgpack.encode(error.args))
        except Exception:  # an argument that is no plain value
            return None
        return (code, error.args) if size <= ERROR_SIZE_MAX else None

    def from_wire(self, method: str, payload: bytes | bytearray) -> Exception:
        """The exception that the other end raised in `method`."""
        try:
            code, args = msgspec.msgpack.decode(payload, type=tuple[str, list[Any]])
        except Exception as error:  # DecodeError, or UTF-8 that is none
            return RemoteFailure(method, f"unreadable error: {error}")
        if code not in self._classes:
            self._walk(self._bases)  # a class may have been imported since
        if code not in self._classes:
            return RemoteFailure(method, f"{code} {args}")
        try:
            return self._classes[code](*args)
        except Exception:  # the two ends disagree about its arguments
            return RemoteFailure(method, f"{code} {args}")

    def _walk(self, classes: Iterable[type[Exception]]) -> None:
        for one in classes:
            code: object = one.__dict__.get("code")
            if isinstance(code, str):
                known = self._classes.setdefault(code, one)
                assert known is one, f"{known} and {one} have the same code"
            self._walk(one.__subclasses__())
