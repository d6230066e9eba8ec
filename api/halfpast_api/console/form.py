"""What a form of the console sends."""

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import parse_qsl

from multidict import istr

from halfpast_api.headers import Headers
from halfpast_api.problems import Refusal

_TYPE: Final = istr("Content-Type")
_FORM: Final = "application/x-www-form-urlencoded"
_FIELDS_MAX: Final = 2_000
_ON: Final = ("on", "true", "1", "yes")


class Form(Mapping[str, str]):
    """Its fields. Of one that comes several times this is the last; see `all`."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs
        self._last = dict(pairs)

    @classmethod
    def parse(cls, headers: Headers, body: bytes) -> "Form":
        """Raises Refusal."""
        kind = headers.get(_TYPE, "").partition(";")[0].strip().lower()
        if kind != _FORM:
            raise Refusal(
                "unsupported_media_type", "this address takes the forms of its page"
            )
        try:
            pairs = parse_qsl(
                body.decode("utf-8"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=_FIELDS_MAX,
            )
        except ValueError as error:
            raise Refusal(
                "malformed_body", f"the form cannot be read ({error}); reload its page"
            ) from None
        return cls([(name, value.replace("\r\n", "\n")) for name, value in pairs])

    def __getitem__(self, name: str) -> str:
        return self._last[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._last)

    def __len__(self) -> int:
        return len(self._last)

    def text(self, name: str) -> str:
        """Without white space around it; empty if it is not there."""
        return self._last.get(name, "").strip()

    def given(self, name: str) -> str | None:
        """The same; None if it is empty."""
        return self.text(name) or None

    def all(self, name: str) -> list[str]:
        """Every value, such as those of ticked boxes."""
        return [value for field, value in self._pairs if field == name]

    def ticked(self, name: str) -> bool:
        return self.text(name) in _ON

    def number(self, name: str) -> int | None:
        """A whole number; None if it is empty. Raises Refusal."""
        text = self.text(name).replace(",", "").replace(" ", "")
        if not text:
            return None
        digits = text.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) <= 18:
            return int(text)
        raise Refusal(
            "invalid_request",
            f"{name.replace('_', ' ')} must be a whole number, and is {text[:40]!r}",
        )
