"""Rules that settings are checked by; each raises InvalidSettings with the field."""

from halfpast_api.metadata.errors import InvalidSettings


def in_range(field: str, value: float, low: float, high: float) -> None:
    """A number within bounds."""
    if not low <= value <= high:
        raise InvalidSettings(field, f"must be {low} to {high}, and is {value}")


def one_of(field: str, value: str, allowed: tuple[str, ...]) -> None:
    """One of a few words."""
    if value not in allowed:
        raise InvalidSettings(field, f"must be {' or '.join(allowed)}")


def text(field: str, value: str, chars_max: int) -> None:
    """No NUL and no lone surrogate: databases refuse both, in different ways."""
    if len(value) > chars_max:
        detail = f"must have at most {chars_max} characters, and has {len(value)}"
        raise InvalidSettings(field, detail)
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidSettings(field, "must be text without NUL or surrogates")


def word(field: str, value: str, chars_max: int) -> None:
    """What may stand in a list of words. It is not shown: it may be a secret."""
    is_word = value.isascii() and value.isprintable() and " " not in value
    if not is_word or not 0 < len(value) <= chars_max:
        detail = f"must each be 1 to {chars_max} visible ASCII characters"
        raise InvalidSettings(field, detail)
