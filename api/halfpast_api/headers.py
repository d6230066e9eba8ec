"""What the headers of a request say, checked."""

from typing import Final

from multidict import CIMultiDictProxy, istr

from halfpast_api.problems import Refusal
from halfpast_api.reading import Format

REQUEST_ID: Final = istr("X-Request-Id")
_CONTENT_TYPE: Final = istr("Content-Type")
_ORIGIN: Final = istr("Origin")
_ACCEPT: Final = istr("Accept")
_IF_MATCH: Final = istr("If-Match")
_IF_NONE_MATCH: Final = istr("If-None-Match")
_IDEMPOTENCY_KEY: Final = istr("Idempotency-Key")

_JSON: Final = "application/json"
_MSGPACK: Final = frozenset(
    {"application/msgpack", "application/x-msgpack", "application/vnd.msgpack"}
)
_FORM: Final = "application/x-www-form-urlencoded"
_KEY_LENGTH_MAX: Final = 255
_ID_LENGTH_MAX: Final = 128
_ID_CHARS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/+=@"
)

Headers = CIMultiDictProxy[str]


def body_format(headers: Headers, body: bytes) -> Format:
    """How the body is written. Raises Refusal for what we do not read.

    `curl -d` calls everything a form, so a form that begins like JSON is JSON. Not
    so from browsers: they send forms, and bodies without a type, for any web page
    to any address, so that a page could publish here behind its reader's back.
    """
    value = headers.get(_CONTENT_TYPE)
    if value == _JSON:
        return Format.JSON
    kind, _, parameters = (value or _FORM).partition(";")
    kind = kind.strip().lower()
    if kind in _MSGPACK:
        return Format.MSGPACK
    is_json = kind == _JSON or (
        kind.startswith("application/") and kind.endswith("+json")
    )
    if kind == _FORM and _ORIGIN not in headers:
        is_json = value is None or body.lstrip()[:1] in (b"{", b"")
    if is_json and _is_utf8(parameters):
        return Format.JSON
    shown = f"{value[:100]!r} is not understood" if value else "it is missing"
    raise Refusal(
        "unsupported_media_type",
        f"the Content-Type must be application/json (in UTF-8) or "
        f"application/msgpack; {shown}",
    )


def answer_format(headers: Headers, sent: Format) -> Format:
    """How to answer: as Accept asks for, otherwise as the request was written."""
    value = headers.get(_ACCEPT)
    if value is None or value == "*/*":
        return sent
    for part in value.split(","):
        kind = part.partition(";")[0].strip().lower()
        if kind in _MSGPACK:
            return Format.MSGPACK
        if kind == _JSON:
            return Format.JSON
    return sent if "*/*" in value or "application/*" in value else Format.JSON


def if_match(headers: Headers) -> int | None:
    """The version that the caller has seen; None if any will do. Raises Refusal."""
    value = headers.get(_IF_MATCH)
    if value is None or value == "*":
        return None
    text = value.strip()
    if len(text) > 2 and text[0] == text[-1] == '"':
        text = text[1:-1]
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    raise Refusal(
        "invalid_version",
        f'If-Match: {value[:100]!r} is not a version; give the ETag back, such as "3"',
    )


def creates_only(headers: Headers) -> bool:
    """Whether `If-None-Match: *` asks not to replace anything. Raises Refusal."""
    value = headers.get(_IF_NONE_MATCH)
    if value is not None and value.strip() != "*":
        raise Refusal(
            "invalid_version",
            "If-None-Match is only understood with *, which means: create, but do not "
            "replace",
        )
    return value is not None


def idempotency_key(headers: Headers) -> str | None:
    """The key under which a request may be repeated. Raises Refusal."""
    value = headers.get(_IDEMPOTENCY_KEY)
    if value is None:
        return None
    if 0 < len(value) <= _KEY_LENGTH_MAX and all("!" <= char <= "~" for char in value):
        return value
    raise Refusal(
        "invalid_idempotency_key",
        f"an Idempotency-Key has 1 to {_KEY_LENGTH_MAX} visible ASCII characters and "
        "no spaces, such as a UUID",
    )


def request_id(headers: Headers) -> str | None:
    """The caller's own id for the request, if it is a sane one."""
    value = headers.get(REQUEST_ID)
    if value and len(value) <= _ID_LENGTH_MAX and _ID_CHARS.issuperset(value):
        return value
    return None


def _is_utf8(parameters: str) -> bool:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip(' "').lower() in ("utf-8", "utf8", "us-ascii")
    return True
