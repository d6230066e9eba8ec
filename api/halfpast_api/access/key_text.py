"""API keys as text.

    hp_k3x9q2mv_4fXk…(43)…Zt01Ab
       id       secret     checksum

The secret is 256 random bits. The checksum covers all before it, so that a key which
was cut or mistyped is told from one that is unknown, and scanners of leaked secrets
can be sure that they have found one. Letters and digits alone: a double click takes
the whole. A signing secret looks the same and begins with `hps_`.
"""

import secrets
import zlib
from collections.abc import Callable
from typing import Final

PREFIX: Final = "hp_"
SIGNING_PREFIX: Final = "hps_"
ID_LENGTH: Final = 8
_SECRET_AT: Final = len(PREFIX) + ID_LENGTH + 1
_SECRET_LENGTH: Final = 43
_CHECK_LENGTH: Final = 6
KEY_LENGTH: Final = _SECRET_AT + _SECRET_LENGTH + _CHECK_LENGTH
HINT_LENGTH: Final = _SECRET_AT + 3
_ID_LETTERS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGIT_SET: Final = frozenset(_DIGITS)
_ID_SET: Final = frozenset(_ID_LETTERS)

RandomBytes = Callable[[int], bytes]


def new_id(random_bytes: RandomBytes = secrets.token_bytes) -> str:
    """An id for a new key: 40 bits."""
    number = int.from_bytes(random_bytes(5), "big")
    return "".join(_ID_LETTERS[number >> 5 * n & 31] for n in range(ID_LENGTH))


def new_key(key_id: str, random_bytes: RandomBytes = secrets.token_bytes) -> str:
    """A key with a fresh secret."""
    return _fresh(PREFIX, key_id, random_bytes)


def new_signing_secret(
    key_id: str, random_bytes: RandomBytes = secrets.token_bytes
) -> str:
    """A fresh secret with which the owner of the key signs."""
    return _fresh(SIGNING_PREFIX, key_id, random_bytes)


def key_id_of(text: str) -> str:
    """The id in a key; empty for what does not begin like one. Whether the key is
    whole, `is_complete` tells."""
    if text[: len(PREFIX)] != PREFIX or text[_SECRET_AT - 1 : _SECRET_AT] != "_":
        return ""
    return text[len(PREFIX) : _SECRET_AT - 1]


def is_complete(text: str) -> bool:
    """Whether this is a whole key, as far as can be told by looking at it."""
    key_id = key_id_of(text)
    if not is_id(key_id) or len(text) != KEY_LENGTH or not text.isascii():
        return False
    head = text[:-_CHECK_LENGTH]
    return _DIGIT_SET.issuperset(text[_SECRET_AT:]) and text == head + _checksum(head)


def is_id(text: str) -> bool:
    """Whether this can be the id of a key."""
    return len(text) == ID_LENGTH and _ID_SET.issuperset(text)


def hint(text: str) -> str:
    """So much of a key that people know it again: its id, and 18 bits of 256."""
    return text[:HINT_LENGTH]


def signing_hint(text: str) -> str:
    """The same of a signing secret."""
    return text[: HINT_LENGTH + len(SIGNING_PREFIX) - len(PREFIX)]


def _fresh(prefix: str, key_id: str, random_bytes: RandomBytes) -> str:
    number = int.from_bytes(random_bytes(32), "big")
    head = f"{prefix}{key_id}_{_base62(number, _SECRET_LENGTH)}"
    return head + _checksum(head)


def _checksum(head: str) -> str:
    return _base62(zlib.crc32(head.encode()), _CHECK_LENGTH)


def _base62(number: int, length: int) -> str:
    digits: list[str] = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))
