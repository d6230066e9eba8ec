"""Headers, query parameters, page tokens, names and ids: taken or refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from halfpast_api import headers
from halfpast_api.event_id import id_text, parse_id
from halfpast_api.names import (
    GROUP_LENGTH_MAX,
    check_group,
    check_topic_to_read,
    check_topic_to_write,
)
from halfpast_api.page_token import parse_name_token, parse_token, render_token
from halfpast_api.problems import Refusal
from halfpast_api.query import Query
from halfpast_api.reading import Format


def sent(**values: str) -> CIMultiDictProxy[str]:
    named = {name.replace("_", "-"): value for name, value in values.items()}
    return CIMultiDictProxy(CIMultiDict(named))


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ("application/json", Format.JSON),
        ("application/json; charset=utf-8", Format.JSON),
        ('Application/JSON;charset="UTF-8"', Format.JSON),
        ("application/cloudevents+json", Format.JSON),
        ("application/x-www-form-urlencoded", Format.JSON),
        ("application/msgpack", Format.MSGPACK),
        ("application/x-msgpack", Format.MSGPACK),
        ("application/vnd.msgpack", Format.MSGPACK),
    ],
)
def test_a_content_type_is_understood(value: str, form: Format) -> None:
    assert headers.body_format(sent(Content_Type=value), b' {"data":1}') is form


def test_a_body_without_content_type_is_json() -> None:
    assert headers.body_format(sent(), b"{}") is Format.JSON


@pytest.mark.parametrize(
    "value",
    [
        *(
            "text/plain",
            "text/json",
            "application/xml",
            "multipart/form-data; boundary=x",
        ),
        *("json", "application/json; charset=utf-16", "image/+json"),
    ],
)
def test_another_content_type_is_refused(value: str) -> None:
    with pytest.raises(Refusal) as raised:
        headers.body_format(sent(Content_Type=value), b"{}")
    assert raised.value.code == "unsupported_media_type"


def test_a_real_form_is_refused() -> None:
    form = sent(Content_Type="application/x-www-form-urlencoded")
    with pytest.raises(Refusal):
        headers.body_format(form, b"data=1")


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", None])
def test_a_web_page_cannot_publish_behind_its_readers_back(kind: str | None) -> None:
    typed = {} if kind is None else {"Content_Type": kind}
    with pytest.raises(Refusal):
        headers.body_format(sent(Origin="https://evil.example", **typed), b"{}")


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (None, Format.MSGPACK),
        ("*/*", Format.MSGPACK),
        ("application/json", Format.JSON),
        ("application/msgpack", Format.MSGPACK),
        ("text/html, application/json;q=0.9", Format.JSON),
        ("text/html, */*;q=0.1", Format.MSGPACK),
        ("text/html", Format.JSON),
    ],
)
def test_the_answer_is_written_as_asked_or_as_sent(
    accept: str | None, form: Format
) -> None:
    given_headers = sent() if accept is None else sent(Accept=accept)
    assert headers.answer_format(given_headers, Format.MSGPACK) is form


@pytest.mark.parametrize(
    ("value", "version"), [('"3"', 3), ("3", 3), (' "12" ', 12), ("*", None)]
)
def test_if_match_names_a_version(value: str, version: int | None) -> None:
    assert headers.if_match(sent(If_Match=value)) == version


@pytest.mark.parametrize(
    "value", ["", "x", '"x"', 'W/"3"', '"1","2"', "-1", "9" * 30, "٣"]
)
def test_another_if_match_is_refused(value: str) -> None:
    with pytest.raises(Refusal):
        headers.if_match(sent(If_Match=value))


def test_if_none_match_takes_a_star_only() -> None:
    assert headers.creates_only(sent(If_None_Match="*"))
    assert not headers.creates_only(sent())
    with pytest.raises(Refusal):
        headers.creates_only(sent(If_None_Match='"1"'))


def test_an_idempotency_key_is_visible_ascii() -> None:
    assert headers.idempotency_key(sent()) is None
    assert headers.idempotency_key(sent(Idempotency_Key="k" * 255)) == "k" * 255
    for bad in ("", "k" * 256, "a b", "a\tb", "é", "\x7f"):
        with pytest.raises(Refusal):
            headers.idempotency_key(sent(Idempotency_Key=bad))


def test_a_request_id_is_taken_only_if_it_is_harmless() -> None:
    assert headers.request_id(sent(X_Request_Id="a-b_C.1:2/3")) == "a-b_C.1:2/3"
    for bad in ("", "a b", "a\r\nSet-Cookie: x", "<x>", "é", "a" * 129):
        assert headers.request_id(sent(X_Request_Id=bad)) is None


def test_a_query_is_read() -> None:
    query = Query.parse("topic=a%2Fb&limit=5&state=", ["topic", "limit", "state"])
    assert query.text("topic") == "a/b"
    assert query.text("state") is None
    assert query.integer("limit", 1, 1, 10) == 5
    assert query.integer("other", 7, 1, 10) == 7
    moment = "due=2026-11-20T11:00:00%2B01:00"
    assert Query.parse(moment, ["due"]).instant("due", 0) == 1_795_168_800_000


@pytest.mark.parametrize(
    "text",
    [
        *("nosuch=1", "limit=1&limit=2", "limit=0", "limit=11", "limit=x", "limit=-1"),
        *("limit=1.5", "limit=%D9%A3", "limit=" + "9" * 30, "due=soon", "limit=%ff"),
        *("due=2026-11-20T11:00:00+01:00", "state=odd", "&".join(["a=1"] * 60)),
    ],
)
def test_a_wrong_query_is_refused(text: str) -> None:
    def read() -> None:
        query = Query.parse(text, ["limit", "due", "state"])
        query.integer("limit", 1, 1, 10)
        query.instant("due", 0)
        query.choice("state", "fine", ["fine"])

    with pytest.raises(Refusal) as raised:
        read()
    assert raised.value.code == "invalid_parameter"


@given(st.binary(max_size=200))
def test_a_page_token_leads_back(position: bytes) -> None:
    token = render_token(position)
    assert parse_token(token) == position
    assert (token is None) == (position == b"")


@pytest.mark.parametrize("token", ["!", "a", "abc=", "é", "A" * 2000, "QUJD\n", "QUI"])
def test_another_page_token_is_refused(token: str) -> None:
    if token == "QUI":  # the right one, to show what the others lack
        assert parse_token(token) == b"AB"
        return
    with pytest.raises(Refusal) as raised:
        parse_token(token)
    assert raised.value.code == "invalid_page_token"


def test_a_page_token_of_names_is_ascii() -> None:
    assert parse_name_token(render_token(b"orders")) == "orders"
    with pytest.raises(Refusal):
        parse_name_token(render_token(b"\xff"))


@pytest.mark.parametrize("name", ["a", "orders-eu_1", "50%", "A" * 127])
def test_a_topic_may_be_named(name: str) -> None:
    check_topic_to_write(name)
    check_topic_to_read(name)


@pytest.mark.parametrize(
    "name",
    ["", "a/b", "a.b", "..", "a\0", "a b", "é", "A" * 128, "x" * 200, "a\n", "a:b"],
)
def test_another_name_of_a_topic_is_refused(name: str) -> None:
    for check in (check_topic_to_write, check_topic_to_read):
        with pytest.raises(Refusal) as raised:
            check(name)
        assert raised.value.code == "invalid_topic"


@pytest.mark.parametrize(
    "name",
    ["SYS_SCHEDULE", "SYS_x", "TRANS_CHECK_MAX_TIME", "%DLQ%g", "%RETRY%g", "%x"],
)
def test_topics_of_the_suite_cannot_be_published_to(name: str) -> None:
    with pytest.raises(Refusal) as raised:
        check_topic_to_write(name)
    assert raised.value.code == "reserved_topic"


def test_of_the_topics_of_the_suite_only_dead_letters_can_be_consumed() -> None:
    check_topic_to_read("%DLQ%g")
    for name in ("SYS_SCHEDULE", "%RETRY%g", "TRANS_x"):
        with pytest.raises(Refusal):
            check_topic_to_read(name)


def test_a_group_may_be_named_so_that_its_dead_letter_topic_can_be() -> None:
    check_group("g" * GROUP_LENGTH_MAX)
    for name in ("g" * (GROUP_LENGTH_MAX + 1), "", "a/b", "SYS_g", "%g"):
        with pytest.raises(Refusal):
            check_group(name)


@given(st.binary(min_size=16, max_size=16))
def test_an_event_id_leads_back(event_id: bytes) -> None:
    assert parse_id(id_text(event_id)) == event_id
    assert parse_id(id_text(event_id).upper()) == event_id


@pytest.mark.parametrize(
    "text",
    [
        *("", "1", "01936f1e8c007abc8def0123456789ab", "x" * 36, "-" * 36),
        "01936f1e-8c00-7abc-8def-0123456789a",
        "01936f1e-8c00-7abc-8def-0123456789ag",
        "01936f1e-8c00-7abc-8def 0123456789ab",
        "{01936f1e-8c00-7abc-8def-0123456789ab}",
    ],
)
def test_another_event_id_is_refused(text: str) -> None:
    with pytest.raises(Refusal) as raised:
        parse_id(text)
    assert raised.value.code == "invalid_event_id"
