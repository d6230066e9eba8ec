"""Secrets taken out of what people and files get to see."""

import re
from typing import Any, Final

from halfpast_api.access.json_value import is_list, is_object

_HIDDEN: Final = "…"
_TEXTS: Final = (
    (re.compile(r"\b(hps?_[0-9a-z]{8}_)[0-9A-Za-z]{4,}"), r"\1" + _HIDDEN),
    (re.compile(r"\bwhsec_[A-Za-z0-9+/=_-]{4,}"), "whsec_" + _HIDDEN),
    (re.compile(r"\bwhsk_[A-Za-z0-9+/=_-]{4,}"), "whsk_" + _HIDDEN),
    (re.compile(r"\beyJ[\w-]{4,}\.[\w-]+\.[\w-]*"), "eyJ" + _HIDDEN),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), r"\1 " + _HIDDEN),
    (re.compile(r"\b(halfpast_\w+=)[\w.%~-]{8,}"), r"\1" + _HIDDEN),
    (re.compile(r"(://[^\s/:@]*:)[^\s/@]+@"), r"\1" + _HIDDEN + "@"),
    (
        re.compile(
            r"(?i)([?&](?:\w*[_-])?(?:token|secret|password|api_?key|sig|signature)=)"
            r"[^\s&#\"']+"
        ),
        r"\1" + _HIDDEN,
    ),
)
_MARKS: Final = (
    "hp_",
    "hps_",
    "whs",
    "eyJ",
    "earer",
    "asic",
    "EARER",
    "ASIC",
    "halfpast_",
    "://",
    "?",
    "&",
)
_NAMES: Final = re.compile(
    r"(^|_)(secret|secrets|token|tokens|password|passwords|authorization|cookie)$"
)
_PAYLOAD: Final = frozenset({"data", "data_base64"})


def redact_text(text: str) -> str:
    """The text without anything that looks like a secret of ours, or a token."""
    if not any(mark in text for mark in _MARKS):
        return text
    for pattern, instead in _TEXTS:
        text = pattern.sub(instead, text)
    return text


def redact(value: Any, depth_max: int = 16) -> Any:
    """The same for what was read from JSON; what is named like a secret, and the
    payload of events, is left out whatever it looks like."""
    if depth_max == 0:
        return _HIDDEN
    if isinstance(value, str):
        return redact_text(value)
    if is_list(value):
        return [redact(item, depth_max - 1) for item in value]
    if is_object(value):
        return {
            name: _member(name, inner, depth_max - 1) for name, inner in value.items()
        }
    return value


def _member(name: str, value: Any, depth_max: int) -> Any:
    if name in _PAYLOAD:
        return _HIDDEN
    if not _NAMES.search(name) or isinstance(value, int) or value is None:
        return redact(value, depth_max)
    if is_list(value) and all(map(is_object, value)):
        return redact(value, depth_max)  # what is told about them
    return _HIDDEN
