"""Event ids as text: UUIDs in lower case, with hyphens."""

from typing import Final

from halfpast_api.problems import Refusal

_LENGTH: Final = 36
_HYPHENS: Final = (8, 13, 18, 23)


def id_text(event_id: bytes) -> str:
    """16 bytes as text."""
    digits = event_id.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def parse_id(text: str) -> bytes:
    """The other way round; capitals are taken too. Raises Refusal."""
    if len(text) == _LENGTH and all(text[at] == "-" for at in _HYPHENS):
        digits = text.replace("-", "")
        if len(digits) == 32 and digits.isalnum() and digits.isascii():
            try:
                return bytes.fromhex(digits)
            except ValueError:
                pass
    shown = text if len(text) <= _LENGTH else text[:_LENGTH] + "…"
    raise Refusal(
        "invalid_event_id",
        f"{shown!r} is not the id of an event; take the id that publishing answered, "
        "such as 01936f1e-8c00-7abc-8def-0123456789ab",
    )
