"""A Halfpast that breaks its word about transactions, to show that tests notice.

python -m tests.acceptance.transaction_liar --lie guesses dev --data ...
"""

import sys
from collections.abc import Callable

import msgspec

from halfpast_api.cli import main as halfpast
from halfpast_core_store.broker import Append
from halfpast_txn import core
from halfpast_txn.half import released
from halfpast_txn.transactions import End, Source, TransactionState

Core = core.TransactionCore


def guesses() -> None:
    """Whoever had to be asked is taken to have failed, whatever the answer."""
    decide = Core.decide

    def guessing(self: Core, end: End) -> object:
        if end.source == Source.CHECK:
            end = msgspec.structs.replace(end, state=TransactionState.ROLLED_BACK)
        return decide(self, end)

    setattr(Core, "decide", guessing)  # noqa: B010


def leaks() -> None:
    """The messages of what is rolled back are delivered all the same."""
    end_request = Core.end_request

    def leaking(self: Core, endings: list[core.Ending]) -> Append:
        for one in endings:
            status = self.open_status(one.transaction_id)
            if not one.messages and status is not None:
                halves = self.halves(one.transaction_id, status.message_count)
                one.messages += [released(half, self.now_ms()) for half in halves]
        return end_request(self, endings)

    setattr(Core, "end_request", leaking)  # noqa: B010


def doubles() -> None:
    """Every message of a commit is written twice."""
    end_request = Core.end_request

    def doubling(self: Core, endings: list[core.Ending]) -> Append:
        for one in endings:
            one.messages += one.messages
        return end_request(self, endings)

    setattr(Core, "end_request", doubling)  # noqa: B010


def hurries() -> None:
    """Delays begin half a second before the commit."""

    def hurried(half: bytes, now_ms: int) -> tuple[int, int, bytes]:
        return released(half, now_ms - 500)

    setattr(core, "released", hurried)  # noqa: B010


LIES: dict[str, Callable[[], None]] = {
    one.__name__: one for one in (guesses, leaks, doubles, hurries)
}

if __name__ == "__main__":
    at = sys.argv.index("--lie")
    LIES[sys.argv[at + 1]]()
    del sys.argv[at : at + 2]
    halfpast()
