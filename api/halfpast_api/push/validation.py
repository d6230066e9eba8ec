"""The handshake of CloudEvents' webhooks: may we post there at all, and how fast?

    OPTIONS  WebHook-Request-Origin: halfpast        ──>
        <──  200  WebHook-Allowed-Origin: halfpast (or *)
                  WebHook-Allowed-Rate: 120          a minute; * for any

Without that permission nothing is delivered, and it is asked for again.
"""

from dataclasses import dataclass
from typing import Final

from halfpast_api.push.call_result import CallResult, Result

SECONDS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """What an answer means. `rate_per_s` 0: as fast as we like."""

    is_granted: bool
    rate_per_s: float = 0.0
    error: str = ""


def request_headers(origin: str, rate_per_s: float) -> dict[str, str]:
    """What is asked."""
    headers = {"WebHook-Request-Origin": origin, "User-Agent": "Halfpast"}
    if rate_per_s:
        headers["WebHook-Request-Rate"] = str(max(1, round(rate_per_s * SECONDS)))
    return headers


def read_permission(found: CallResult, origin: str) -> Permission:
    """What was answered."""
    if found.result is not Result.DELIVERED:
        return Permission(is_granted=False, error=f"handshake: {found.error}")
    headers = dict(found.headers)
    allowed = headers.get("webhook-allowed-origin", "").strip()
    origins = [it.strip().lower() for it in allowed.split(",")]
    if "*" not in origins and origin.lower() not in origins:
        error = "handshake: the answer has no WebHook-Allowed-Origin for us"
        return Permission(is_granted=False, error=error)
    rate = headers.get("webhook-allowed-rate", "").strip()
    is_number = rate.isascii() and rate.isdigit() and len(rate) < 10
    per_s = int(rate) / SECONDS if is_number else 0.0
    if is_number and not int(rate):
        error = "handshake: WebHook-Allowed-Rate is 0"
        return Permission(is_granted=False, error=error)
    return Permission(is_granted=True, rate_per_s=per_s)


def lower_rate(one: float, other: float) -> float:
    """The stricter of two rates, of which 0 is none."""
    return min(one, other) if one and other else one or other
