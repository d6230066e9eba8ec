"""Signatures after Standard Webhooks, so that a producer knows that it is us who ask.

    webhook-id         the same for every attempt of one call
    webhook-timestamp  when this attempt was made, in seconds
    webhook-signature  v1,<base64> for each secret, with spaces between

A signature is HMAC-SHA256 over `id.timestamp.body`. A receiver accepts a call if any
signature fits, so while a secret is being replaced the old and the new one both sign.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from hashlib import sha256
from hmac import digest

SECRET_PREFIX = "whsec_"  # nosec B105 # how secrets begin, none itself
SECRET_SIZE_MIN = 24
SECRET_SIZE_MAX = 64


def read_secret(text: str) -> bytes:
    """The key that a `whsec_…` text stands for. The `=` at its end may be missing.

    Raises ValueError, which says what a secret looks like and never shows this one.
    """
    encoded = text.removeprefix(SECRET_PREFIX)
    if encoded == text:
        raise ValueError(_advice("this one begins in another way"))
    padded = encoded.rstrip("=")
    try:
        key = b64decode(padded + "=" * (-len(padded) % 4), validate=True)
    except ValueError:
        raise ValueError(_advice("what this one has is no base64")) from None
    if not SECRET_SIZE_MIN <= len(key) <= SECRET_SIZE_MAX:
        raise ValueError(_advice(f"this one has {len(key)}"))
    return key


def secret_text(key: bytes) -> str:
    """The other way round. `key` should be random."""
    assert SECRET_SIZE_MIN <= len(key) <= SECRET_SIZE_MAX
    return SECRET_PREFIX + b64encode(key).decode()


def signed_headers(
    secrets: Iterable[str], message_id: str, timestamp_s: int, body: bytes
) -> dict[str, str]:
    """The headers of one attempt. Raises ValueError if a secret is none.

    Without secrets there is no signature.
    """
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    signatures = [_signature(read_secret(secret), signed) for secret in secrets]
    headers = {"webhook-id": message_id, "webhook-timestamp": str(timestamp_s)}
    if signatures:
        headers["webhook-signature"] = " ".join(signatures)
    return headers


def _signature(key: bytes, signed: bytes) -> str:
    return "v1," + b64encode(digest(key, signed, sha256)).decode()


def _advice(fault: str) -> str:
    return (
        f"a secret is {SECRET_PREFIX} and {SECRET_SIZE_MIN} to {SECRET_SIZE_MAX} "
        f"random bytes in base64; {fault}"
    )
