"""Receivers of webhooks: whether a call comes from Halfpast, and was not repeated late.

Signatures are those of Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`, one for
each live secret, so that a secret can be replaced without a gap.
"""

import time
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from datetime import timedelta
from hmac import compare_digest, digest

from halfpast.errors import InvalidWebhook

TOLERANCE = timedelta(minutes=5)
_PREFIX = "whsec_"
_LENGTH_MAX = 20_000


def verify_webhook(
    headers: Mapping[str, str],
    body: bytes,
    secrets: str | Iterable[str],
    *,
    tolerance: timedelta = TOLERANCE,
    now_s: float | None = None,
) -> str:
    """The id of the delivery, which is the same each time it is repeated: keep it, and
    answer 200 to one that you have dealt with already.

    `body` as it came, byte for byte, before anything has parsed it; `secrets` are those
    that may have signed, such as the new one and the one before. Raises InvalidWebhook,
    for which 401 is a good answer, and ValueError for a secret that is none.
    """
    keys = [_key(it) for it in ([secrets] if isinstance(secrets, str) else secrets)]
    if not keys:
        raise ValueError("give at least one secret")
    found = {name.lower(): value for name, value in headers.items()}
    identity = _header(found, "webhook-id")
    timestamp = _header(found, "webhook-timestamp")
    signatures = _header(found, "webhook-signature").encode().split(b" ")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 20):
        raise InvalidWebhook("webhook-timestamp is no number of seconds")
    signed = f"{identity}.{timestamp}.".encode() + body
    wanted = [b"v1," + b64encode(digest(key, signed, "sha256")) for key in keys]
    # All are compared, so that the time taken tells nothing.
    matches = [compare_digest(one, given) for one in wanted for given in signatures]
    if not any(matches):
        raise InvalidWebhook("none of the signatures is that of one of the secrets")
    age_s = (time.time() if now_s is None else now_s) - int(timestamp)
    if abs(age_s) > tolerance.total_seconds():
        raise InvalidWebhook(
            f"it was signed {age_s:.0f} s ago: a repetition, or a clock"
        )
    return identity


def _header(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name, "")
    if not value:
        raise InvalidWebhook(f"the header {name} is missing")
    if len(value) > _LENGTH_MAX:
        raise InvalidWebhook(f"the header {name} is too long")
    return value


def _key(secret: str) -> bytes:
    encoded = secret.removeprefix(_PREFIX)
    if encoded == secret:
        raise ValueError(f"a secret begins with {_PREFIX}")
    padded = encoded.rstrip("=")
    return b64decode(padded + "=" * (-len(padded) % 4), validate=True)
