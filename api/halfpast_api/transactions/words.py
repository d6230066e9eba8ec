"""The words for what the transaction service has as numbers."""

from typing import Final

from halfpast_txn.transactions import Happening, Source, TransactionState

STATES: Final = {state.name.lower(): state for state in TransactionState}
STATE_WORDS: Final = {int(state): state.name.lower() for state in TransactionState}
SOURCE_WORDS: Final = {
    int(source): source.name.lower() for source in Source if source != Source.NOBODY
}
HAPPENING_WORDS: Final = {int(it): it.name.lower() for it in Happening}
UNKNOWN: Final = "unknown"
