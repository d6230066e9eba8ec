"""All words: a name means the same everywhere.

They are by the member's name, or by struct and name where one struct means it in a
narrower sense. A guard test wants a word for every member there is.
"""

from collections.abc import Mapping
from typing import Final

from halfpast_api.openapi.words.access import ACCESS
from halfpast_api.openapi.words.clock import CLOCK
from halfpast_api.openapi.words.consuming import CONSUMING, SETTINGS
from halfpast_api.openapi.words.events import EVENTS, RESULTS
from halfpast_api.openapi.words.limiting import LIMITS
from halfpast_api.openapi.words.pushing import PUSHING
from halfpast_api.openapi.words.schedules import SCHEDULES
from halfpast_api.openapi.words.transactions import TRANSACTIONS
from halfpast_api.openapi.words.upcoming import BULK, DUE
from halfpast_api.openapi.words.word import Word

WORDS: Final[Mapping[str, Word]] = (
    EVENTS
    | RESULTS
    | DUE
    | BULK
    | SCHEDULES
    | CONSUMING
    | SETTINGS
    | TRANSACTIONS
    | PUSHING
    | ACCESS
    | LIMITS
    | CLOCK
)


def word_of(struct: str, member: str) -> Word | None:
    """What a member of a struct means."""
    return WORDS.get(f"{struct}.{member}") or WORDS.get(member)
