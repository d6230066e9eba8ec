"""The secrets that sign check-backs: made here, and taken from producers.

What one looks like, `halfpast_txn.signature` knows. No error shows one.
"""

from collections.abc import Callable, Sequence
from typing import Final

from halfpast_api.metadata.settings import CHECK_SECRETS_MAX
from halfpast_api.problems import Refusal, refuse_field
from halfpast_txn.signature import read_secret, secret_text

NEW_SIZE: Final = 32
_ADVICE: Final = "then a check_url keeps those it has, or gets a new one"


def new_secret(random_bytes: Callable[[int], bytes]) -> str:
    """A secret from so many bytes that nobody can guess."""
    drawn = random_bytes(NEW_SIZE)
    assert len(drawn) == NEW_SIZE
    return secret_text(drawn)


def check_secrets(
    secrets: Sequence[str], field: str = "check_secrets", advice: str = _ADVICE
) -> None:
    """Raise Refusal unless a producer group, or an endpoint, may have these secrets."""
    if not 1 <= len(secrets) <= CHECK_SECRETS_MAX:
        raise refuse_field(
            "invalid_secret",
            f"/{field}",
            f"give 1 to {CHECK_SECRETS_MAX} secrets, the newest first, or leave the "
            f"field out: {advice}",
        )
    for index, secret in enumerate(secrets):
        if wrong := _wrong_with(secret):
            raise _refuse(field, index, wrong)
        if secret in secrets[:index]:
            raise _refuse(field, index, "it is given twice; give it once")


def _wrong_with(secret: str) -> str:
    """What to mend, empty if nothing."""
    try:
        key = read_secret(secret)
    except ValueError as error:
        return str(error)
    if secret_text(key) != secret:
        return "it must be base64 to its end: with its =, and no bits left over"
    return ""


def _refuse(field: str, index: int, detail: str) -> Refusal:
    return refuse_field("invalid_secret", f"/{field}/{index}", detail)
