"""Listing transactions by state, a slice at a time."""

from halfpast_core_store.ports import Index

from .namespace import in_namespace
from .status import Status, decode_status
from .transactions import ListTransactions, Transaction, TransactionPage
from .transactions import TransactionState as State

SLICE_COUNT = 250
SLICES_MAX = 400


class Listing:
    """One page in the making. Call `step` until it says that it is done."""

    def __init__(self, index: Index, request: ListTransactions) -> None:
        self._index = index
        self._request = request
        self._found: list[Transaction] = []
        self._family = {State.PREPARED: b"S", State.PARKED: b"P"}.get(
            State(request.state), b"F"
        )
        self._end = bytes((self._family[0] + 1,))
        self._after = self._family
        if request.after.startswith(self._family):
            self._after = request.after + b"\0"
        self._last = b""
        self._slices = 0
        self._exhausted = False

    def step(self) -> bool:
        """Look at some more. True if there is more to do for this page."""
        self._slices += 1
        keys = self._index.scan(self._after, self._end, SLICE_COUNT)
        self._exhausted = len(keys) < SLICE_COUNT
        for (key, _), status in zip(keys, self._statuses(keys), strict=True):
            self._last = key
            if status is not None and self._wanted(status):
                self._found.append(status.public(key[-16:]))
                if len(self._found) >= self._request.limit:
                    self._exhausted = False
                    return False
        if keys:
            self._after = keys[-1][0] + b"\0"
        return not self._exhausted and self._slices < SLICES_MAX

    def _statuses(self, found: list[tuple[bytes, bytes]]) -> list[Status | None]:
        if self._family == b"S":
            return [decode_status(value) for _, value in found]
        family = b"S" if self._family == b"P" else b"O"
        values = self._index.get_many([family + key[-16:] for key, _ in found])
        return [None if value is None else decode_status(value) for value in values]

    def _wanted(self, status: Status) -> bool:
        if status.state != self._request.state:
            return False
        if not in_namespace(status.group, self._request.namespace):
            return False
        return not self._request.group or status.group == self._request.group

    def page(self) -> TransactionPage:
        """What was found, and where to go on."""
        return TransactionPage(self._found, b"" if self._exhausted else self._last)
