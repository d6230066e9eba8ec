"""The JSON that msgspec lets pass and the API does not."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw, UnsetType

from halfpast_api.problems import Refusal
from halfpast_api.strictness import check_depth, check_duplicates, check_utf8


class Inner(msgspec.Struct, omit_defaults=True):
    key: str | None = None
    number: int | None = None
    data: Raw | UnsetType = UNSET


class Outer(msgspec.Struct, omit_defaults=True):
    events: list[Inner] = []
    data: Raw | UnsetType = UNSET
    atomic: bool = False


DECODE = msgspec.json.Decoder(Outer).decode


def duplicates(body: bytes) -> list[str]:
    """Pointers to what is given twice."""
    try:
        check_duplicates(body, DECODE(body), DECODE)
    except Refusal as refusal:
        is_it = refusal.code == "duplicate_key"
        return [error.pointer for error in refusal.errors] if is_it else [refusal.code]
    return []


@pytest.mark.parametrize(
    "body",
    [b'"\xff"', b'"\xed\xa0\x80"', b'"\xc3"', b'"\xc0\xaf"', b'"\xf8\x88\x80\x80"'],
)
def test_bytes_that_are_not_utf8_are_refused(body: bytes) -> None:
    with pytest.raises(Refusal, match="not UTF-8 at byte 1"):
        check_utf8(body)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_utf8_passes(text: str) -> None:
    check_utf8(text.encode())


@pytest.mark.parametrize("depth_max", [1, 5, 128])
@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        (b"[", b"]"),
        (b'{"a":', b"}"),
        (b'[{"a":', b"}]"),
        (b'["[[[[{",', b"]"),
        (b'["\\"[\\\\",', b"]"),
        (b"[[],[[]],", b"]"),
    ],
)
def test_depth_is_counted_exactly(
    depth_max: int, opening: bytes, closing: bytes
) -> None:
    def nested(count: int) -> bytes:
        return b" " * 300 + opening * count + b"1" + closing * count

    def depth(value: Any) -> int:
        if hasattr(value, "values"):
            value = value.values()
        elif not hasattr(value, "append"):
            return 0
        return 1 + max(map(depth, value), default=0)

    count = 1
    while depth(json.loads(nested(count))) <= depth_max:
        check_depth(nested(count), depth_max)
        count += 1
    with pytest.raises(Refusal, match=f"more than {depth_max} levels"):
        check_depth(nested(count), depth_max)


def test_looking_at_depth_is_bounded_in_work() -> None:
    body = b"[" + b",".join([b"[" * 100 + b"]" * 100] * 20_000) + b"]"
    with pytest.raises(Refusal):
        check_depth(body, 128)


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        (b'{"atomic":true,"atomic":true}', ["/atomic"]),
        (b'{"atomic":true, "atomic":true}', ["/atomic"]),
        (b'{"\\u0061tomic":true,"atomic":true}', ["/atomic"]),
        (b'{"events":[],"data":1,"events":[]}', ["/events"]),
        (b'{"events":[{},{"key":"a","key":"b"}]}', ["/events/1/key"]),
        (b'{"events":[{"key":null,"key":"b"}]}', ["/events/0/key"]),
        (b'{"events":[{"key":"b", "k\\u0065y":null}]}', ["/events/0/key"]),
        (b'{"events":[{"data":1,"data":2}]}', ["/events/0/data"]),
        (b'{"data":{"a":1,"a":2}}', []),
        (b'{"events":[{"data":[{"a":1,"a":2}]}]}', []),
        (b'{"atomic":false}', []),
        (b'{ "events" : [ { "key" : null } ] }', []),
        (b'{"\\u0061tomic":true}', []),
        (b'{"events":[{"key":"\\u00e9\\/"}],"data":"\\u0041"}', []),
        (b"{}", []),
    ],
)
def test_a_key_given_twice_is_found(body: bytes, pointers: list[str]) -> None:
    assert duplicates(body) == pointers


def test_a_large_body_with_a_key_twice_is_refused_without_a_long_look() -> None:
    filler = b'{"data":"' + b"x" * 2_000_000 + b'"}'
    assert duplicates(b'{"events":[' + filler + b'],"atomic":true,"atomic":true}')


members = st.lists(
    st.tuples(
        st.sampled_from(["key", "number", "data"]),
        st.none() | st.integers(0, 2**63) | st.text(max_size=5),
    ),
    max_size=5,
)


@given(st.lists(members, max_size=4), st.booleans(), st.booleans(), st.booleans())
def test_exactly_the_double_keys_are_refused(
    events: list[list[tuple[str, Any]]], spaced: bool, ascii_only: bool, twice: bool
) -> None:
    comma, colon = (", ", ": ") if spaced else (",", ":")

    def text(value: Any) -> str:
        return json.dumps(value, ensure_ascii=ascii_only)

    def fits(name: str, value: Any) -> Any:
        wanted = {"key": str, "number": int, "data": object}[name]
        return value if isinstance(value, wanted) else None

    objects = [
        "{" + comma.join(f'"{n}"{colon}{text(fits(n, v))}' for n, v in event) + "}"
        for event in events
    ]
    body = f'{{"events"{colon}[{comma.join(objects)}]'
    body += f'{comma}"events"{colon}[]' * twice + "}"
    try:
        encoded = body.encode()
    except UnicodeEncodeError:
        return
    doubled = twice or any(
        len({name for name, _ in event}) < len(event) for event in events
    )
    assert bool(duplicates(encoded)) == doubled
