"""Limits of callers, and those of the server."""

from typing import Final

from halfpast_api.limits.caller_limits import RATE_MAX
from halfpast_api.metadata.settings import DELAY_MS_MAX, LIMIT_VALUE_MAX
from halfpast_api.openapi import samples
from halfpast_api.openapi.words.word import Word, Words, number

_REQUESTS: Final = Word(
    "Requests a second, on average; fractions too.",
    100.0,
    given={"minimum": 0, "maximum": RATE_MAX},
)
_BYTES: Final = Word(
    "Bytes a second in bodies, decompressed, on average.",
    1_000_000.0,
    given={"minimum": 0, "maximum": RATE_MAX},
)
_PENDING: Final = "Events that may be pending in the namespace."
_DELAY: Final = "How far ahead events may be scheduled."

LIMITS: Final[Words] = {
    "subject": Word("Whose limits.", f"key:{samples.KEY_ID}"),
    "set_by": Word(
        "Where they were given: to you, or to all of your kind.", "every-key"
    ),
    "requests_per_s": _REQUESTS,
    "request_burst": number(
        "How many may come at once; twice a second's if it is not given.",
        200,
        1,
        LIMIT_VALUE_MAX,
    ),
    "requests_left": Word("How many may come now.", 163),
    "bytes_per_s": _BYTES,
    "byte_burst": number(
        "How many may come at once; twice a second's if it is not given.",
        2_000_000,
        1,
        LIMIT_VALUE_MAX,
    ),
    "bytes_left": Word("How many may come now.", 1_988_120),
    "LimitsBody.max_pending": number(_PENDING, 1_000_000, 0, LIMIT_VALUE_MAX),
    "LimitsBody.max_delay_ms": number(_DELAY, 31_536_000_000, 0, DELAY_MS_MAX),
    "LimitsView.max_pending": Word(_PENDING, 1_000_000),
    "LimitsView.max_delay_ms": Word(_DELAY, 31_536_000_000),
    "ShareView.max_pending": Word(_PENDING, 1_000_000),
    "ShareView.max_delay_ms": Word(_DELAY, 31_536_000_000),
    "LimitsPageView.limits": Word("Who has limits, and which."),
    "OwnLimitsView.limits": Word("Yours as a key or user, and your namespace's."),
    "OwnLimitsView.pending": Word("Events that are pending in your namespace.", 4217),
    "server": Word("What holds for everybody."),
    "ServerLimitsView.max_delay_ms": Word(
        "How far ahead a topic may allow.", DELAY_MS_MAX
    ),
    "event_bytes": Word("The largest data of one event.", 4_194_304),
    "batch_bytes": Word("The largest body of a batch, decompressed.", 33_554_432),
    "batch_events": Word("How many events one batch takes.", 10_000),
    "transaction_messages": Word("How many messages one transaction takes.", 1_000),
    "transaction_bytes": Word("How large they may be together.", 16_777_216),
    "key_bytes": Word("The longest key of an event.", 255),
    "topic_characters": Word("The longest name of a topic.", 127),
    "pop_wait_ms": Word("How long a pop may wait.", 60_000),
}
