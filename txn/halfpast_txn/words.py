"""The words for states and the like: the same in the API, its problems, the metrics
and the answers of producers."""

from typing import Final

from .transactions import Happening, Source, TransactionState

STATES: Final = {state.name.lower(): state for state in TransactionState}
STATE_WORDS: Final = {int(state): state.name.lower() for state in TransactionState}
SOURCE_WORDS: Final = {
    int(source): source.name.lower() for source in Source if source != Source.NOBODY
}
HAPPENING_WORDS: Final = {int(it): it.name.lower() for it in Happening}

PREPARED: Final = STATE_WORDS[TransactionState.PREPARED]
COMMITTED: Final = STATE_WORDS[TransactionState.COMMITTED]
ROLLED_BACK: Final = STATE_WORDS[TransactionState.ROLLED_BACK]
UNKNOWN: Final = "unknown"

ANSWER_WORDS: Final = {
    0: UNKNOWN,
    int(TransactionState.COMMITTED): COMMITTED,
    int(TransactionState.ROLLED_BACK): ROLLED_BACK,
}
"""What a producer may say to a check-back, by `CheckAnswer.state`."""
