"""The virtual clock."""

from typing import Final

from halfpast_api.openapi.words.word import DURATION, Word, Words, instant, number

CLOCK: Final[Words] = {
    "ClockView.now": instant("What the clock shows."),
    "AdvancedView.now": instant("What the clock shows."),
    "now_ms": Word("The same in milliseconds since 1970.", 1_795_168_805_123),
    "moved_ms": Word("How far it was moved.", 1_800_000),
    "stops": Word("At how many moments something was due on the way.", 3),
    "reached": Word("Whether it has come to where it should.", True),
    "AdvanceBody.by": Word("How far, as ISO 8601: days to seconds.", "PT30M", DURATION),
    "by_ms": number("How far, in milliseconds.", 1_800_000),
    "AdvanceBody.to": instant("To which moment.", "2030-01-01T00:00:00Z"),
}
