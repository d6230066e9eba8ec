"""What is stored of a secret instead of it: a keyed hash.

A slow hash (argon2, bcrypt) protects what people choose, since that can be guessed.
Our secrets are 256 random bits: nobody can try enough of them, however quick the hash
is, while a slow one would cost each request milliseconds, and every stranger with a
made-up key could make the server pay them. The hash is keyed with a salt of its own
for each secret, so that equal digests mean nothing and tables are of no use.
"""

import hmac
import secrets
from hashlib import blake2b
from typing import Final

_PERSON: Final = b"halfpast.secret"
_SALT_SIZE: Final = 16
_DIGEST_SIZE: Final = 32


def new_salt() -> str:
    return secrets.token_bytes(_SALT_SIZE).hex()


def digest(secret: str, salt: str) -> str:
    """The digest of a secret, as it is stored."""
    hashed = _keyed(bytes.fromhex(salt))
    hashed.update(secret.encode("utf-8", "surrogateescape"))
    return hashed.hexdigest()


class Lock:
    """What opens for one secret alone. Made once, since half of the time that a keyed
    hash takes goes into its key."""

    __slots__ = ("_keyed", "_known")

    def __init__(self, salt: bytes, known: bytes) -> None:
        self._keyed = _keyed(salt)
        self._known = known

    def opens(self, secret: bytes) -> bool:
        """Whether this is the secret; told in the same time for any that is not."""
        hashed = self._keyed.copy()
        hashed.update(secret)
        return hmac.compare_digest(hashed.digest(), self._known)


def _keyed(salt: bytes) -> blake2b:
    return blake2b(digest_size=_DIGEST_SIZE, key=salt, person=_PERSON)
