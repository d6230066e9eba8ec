"""Cookies of the console. Scripts get none that it writes, and other sites neither."""

from typing import Final

from multidict import istr

from halfpast_api.headers import Headers

PATH: Final = "/console"
_COOKIE: Final = istr("Cookie")
_SIZE_MAX: Final = 8_192


def read_cookie(headers: Headers, name: str) -> str:
    """Its value; empty if there is none."""
    for line in headers.getall(_COOKIE, ()):
        if len(line) > _SIZE_MAX:
            continue
        for pair in line.split(";"):
            key, _, value = pair.strip().partition("=")
            if key == name:
                return value.strip('"')
    return ""


def write_cookie(
    name: str, value: str, *, age_s: int | None = None, secure: bool = False
) -> tuple[str, str]:
    """The header that sets it. `value` must be of plain characters."""
    assert value.isascii()
    assert not set(value) & set('";, \\\r\n')
    text = f"{name}={value}; Path={PATH}; HttpOnly; SameSite=Strict"
    if age_s is not None:
        text += f"; Max-Age={age_s}"
    return "Set-Cookie", text + ("; Secure" if secure else "")
