"""The secrets that sign check-backs, as Standard Webhooks writes them.

`whsec_`, then 24 to 64 random bytes in base64. No error shows one.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import Final

from halfpast_api.metadata.settings import CHECK_SECRETS_MAX
from halfpast_api.problems import Refusal, refuse_field

PREFIX: Final = "whsec_"
NEW_SIZE: Final = 32
SIZE_MIN: Final = 24
SIZE_MAX: Final = 64


def new_secret(random_bytes: Callable[[int], bytes]) -> str:
    """A secret from so many bytes that nobody can guess."""
    drawn = random_bytes(NEW_SIZE)
    assert len(drawn) == NEW_SIZE
    return PREFIX + b64encode(drawn).decode()


def check_secrets(secrets: Sequence[str]) -> None:
    """Raise Refusal unless a producer group may have these secrets."""
    if not 1 <= len(secrets) <= CHECK_SECRETS_MAX:
        raise refuse_field(
            "invalid_secret",
            "/check_secrets",
            f"give 1 to {CHECK_SECRETS_MAX} secrets, the newest first, or leave the "
            "field out: then a check_url keeps those it has, or gets a new one",
        )
    for index, secret in enumerate(secrets):
        if wrong := _wrong_with(secret):
            raise _refuse(index, wrong)
        if secret in secrets[:index]:
            raise _refuse(index, "it is given twice; give it once")


def _wrong_with(secret: str) -> str:
    """What to mend, empty if nothing."""
    if not secret.startswith(PREFIX):
        return f'it must begin with "{PREFIX}", then {SIZE_MIN} to {SIZE_MAX} bytes'
    text = secret.removeprefix(PREFIX)
    try:
        key = b64decode(text, validate=True)
    except ValueError:
        key = b""
    if b64encode(key).decode() != text:
        return f'what follows "{PREFIX}" must be base64, with + and /, and = at its end'
    if not SIZE_MIN <= len(key) <= SIZE_MAX:
        return f"it must hold {SIZE_MIN} to {SIZE_MAX} bytes, and holds {len(key)}"
    return ""


def _refuse(index: int, detail: str) -> Refusal:
    return refuse_field("invalid_secret", f"/check_secrets/{index}", detail)
