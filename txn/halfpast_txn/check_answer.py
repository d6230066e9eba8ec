"""What became of one call to a producer's endpoint.

Only an explicit word ends a transaction: a JSON object, in UTF-8, whose one member
`state` is "committed", "rolled_back" or "unknown". Other members are left to the
producer; two that are called `state` are no clear word.
"""

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any

from .transport import Verdict
from .words import ANSWER_WORDS

ANSWER_SIZE_MAX = 64 * 1024
BROKEN_STATUSES = frozenset((410, 429))  # and all from 500 on


class Health(Enum):
    """What a call tells about its endpoint. NOTHING if none was reached."""

    WORKS = 1
    FAILS = 2
    NOTHING = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """`result` is the label under which the call is counted."""

    result: str
    health: Health
    verdict: Verdict


def _without_answer(result: str, health: Health, cause: str) -> Outcome:
    return Outcome(result, health, Verdict(state=0, cause=cause))


TIMEOUT = _without_answer("timeout", Health.FAILS, "timeout")
NO_CONNECTION = _without_answer("failed", Health.FAILS, "connection failed")
NO_HOST = _without_answer("failed", Health.FAILS, "host not found")
NO_TLS = _without_answer("failed", Health.FAILS, "tls failed")
BAD_URL = _without_answer("failed", Health.NOTHING, "bad url")
BAD_SECRET = _without_answer("failed", Health.NOTHING, "bad secret")
INTERNAL_ERROR = _without_answer("failed", Health.NOTHING, "internal error")
REFUSED_ADDRESS = _without_answer("refused_address", Health.NOTHING, "refused address")
CIRCUIT_OPEN = _without_answer("circuit_open", Health.NOTHING, "circuit open")
BUSY = _without_answer("busy", Health.NOTHING, "busy")
REDIRECT = _without_answer("http_error", Health.WORKS, "redirect")
TOO_LONG = _without_answer("bad_answer", Health.WORKS, "answer too long")
NOT_JSON = _without_answer("bad_answer", Health.WORKS, "not json")
NO_STATE = _without_answer("bad_answer", Health.WORKS, "no state")
BAD_STATE = _without_answer("bad_answer", Health.WORKS, "bad state")

ANSWERS = {
    word: Outcome(
        word,
        Health.WORKS,
        Verdict(state=state, cause="" if state else word),
    )
    for state, word in ANSWER_WORDS.items()
}

RESULTS = (
    *ANSWERS,
    *("timeout", "http_error", "bad_answer", "refused_address"),
    *("circuit_open", "busy", "failed"),
)


class _Members(list[tuple[str, Any]]):
    """A JSON object with all its members, the repeated ones too."""


def read_status(status: int) -> Outcome | None:
    """What an HTTP status says by itself; None where the body has the answer."""
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return REDIRECT
    is_broken = status >= 500 or status in BROKEN_STATUSES
    health = Health.FAILS if is_broken else Health.WORKS
    return _without_answer("http_error", health, f"http {status}")


def read_answer(body: bytes) -> Outcome:
    """What the body of a 2xx says. Its content type does not matter."""
    try:
        members = json.loads(body.decode(), object_pairs_hook=_Members)
    except (ValueError, RecursionError):
        return NOT_JSON
    if not isinstance(members, _Members):
        return NO_STATE
    states = [value for name, value in members if name == "state"]
    if not states:
        return NO_STATE
    if len(states) > 1 or not isinstance(states[0], str):
        return BAD_STATE
    return ANSWERS.get(states[0], BAD_STATE)
