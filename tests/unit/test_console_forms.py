"""What people type, and what is made of it."""

from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy
from tests.unit.console_stub import FORM, form_of

from halfpast_api.console.addresses import target
from halfpast_api.console.cookies import read_cookie, write_cookie
from halfpast_api.console.events.content import content_fields, time_fields
from halfpast_api.console.events.search import read_search
from halfpast_api.console.form import Form
from halfpast_api.console.moment import (
    instant_of,
    local_field,
    span_ms_of,
    span_text,
    zone_of,
)
from halfpast_api.console.navigation import current
from halfpast_api.console.pager import pager_of
from halfpast_api.console.said import Said, heard, say
from halfpast_api.problems import Refusal
from halfpast_api.query import Query

BERLIN = "Europe/Berlin"


def headers(**given: str) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(
        CIMultiDict({name.replace("_", "-"): it for name, it in given.items()})
    )


def parsed(body: str) -> Form:
    return Form.parse(headers(Content_Type=f"{FORM}; charset=utf-8"), body.encode())


def test_fields_of_a_form() -> None:
    form = parsed("a=1&b=%20x%0D%0Ay%20&id=1&id=2&on=yes&c=")
    assert form.text("b") == "x\ny"
    assert form.all("id") == ["1", "2"]
    assert form.number("a") == 1
    assert form.number("c") is None
    assert form.given("c") is None
    assert form.ticked("on")
    assert not form.ticked("off")


@pytest.mark.parametrize("body", ["a=%ff", "&".join(["a=1"] * 3000)])
def test_a_form_that_cannot_be_read_is_refused(body: str) -> None:
    with pytest.raises(Refusal):
        parsed(body)


@pytest.mark.parametrize(
    "text", ["x", "1.5", "--1", "9" * 30, "\N{ARABIC-INDIC DIGIT ONE}"]
)
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(Refusal) as caught:
        form_of(queues=text).number("queues")
    assert "queues must be a whole number" in caught.value.detail


@given(st.integers(0, 10**14))
def test_spans_are_read_as_they_are_shown(ms: int) -> None:
    assert span_ms_of(span_text(ms)) == ms


def test_spans_as_people_write_them() -> None:
    assert span_ms_of("1h30m") == 5_400_000
    assert span_ms_of("PT30M") == 1_800_000
    assert span_ms_of("1500") == 1500
    assert span_text(5_400_000) == "1h30m"
    assert span_text(0) == "0s"
    with pytest.raises(Refusal):
        span_ms_of("soon")


def test_times_are_meant_in_the_zone_of_whoever_typed_them() -> None:
    assert instant_of("2026-07-01T12:00", BERLIN) == "2026-07-01T10:00:00.000Z"
    assert instant_of("2026-12-01T12:00:05", BERLIN) == "2026-12-01T11:00:05.000Z"
    assert instant_of("2026-12-01T12:00:00Z", BERLIN) == "2026-12-01T12:00:00.000Z"
    assert local_field("2026-12-01T11:00:05.000Z", BERLIN) == "2026-12-01T12:00:05"
    assert local_field(None, BERLIN) == ""
    with pytest.raises(Refusal):
        instant_of("tomorrow", BERLIN)


@pytest.mark.parametrize("name", ["", "../etc/passwd", "Nowhere/Land", "x" * 100, "é"])
def test_a_zone_that_is_none_is_utc(name: str) -> None:
    assert zone_of(name).key == "UTC"


def test_the_message_of_an_event() -> None:
    form = form_of(
        form="json", data='{"a": 1.50}', key="k", properties="region: eu\n\nx:y:z"
    )
    fields = content_fields(form)
    assert bytes(fields["data"]) == b'{"a": 1.50}'  # type: ignore[call-overload]
    assert fields["properties"] == {"region": "eu", "x": "y:z"}
    assert "tag" not in fields
    text = content_fields(form_of(form="text", data="grüß"))
    assert b64decode(str(text["data_base64"])).decode() == "grüß"
    raw = content_fields(form_of(form="base64", data="AAE\nC"))
    assert raw == {"data_base64": "AAEC"}
    for wrong in ({"form": "json", "data": "{"}, {"data": "1", "properties": "eu"}):
        with pytest.raises(Refusal):
            content_fields(form_of(**wrong))


def test_the_time_of_an_event() -> None:
    assert time_fields(form_of(when="now", delay="1h")) == {}
    assert time_fields(form_of(when="delay", delay="1s")) == {"delay_ms": 1000}
    at = time_fields(form_of(when="at", deliver_at="2026-12-01T12:00", zone=BERLIN))
    assert at == {"deliver_at": "2026-12-01T11:00:00.000Z"}
    for wrong in ("delay", "at"):
        with pytest.raises(Refusal):
            time_fields(form_of(when=wrong))


def test_a_search_is_a_filter_of_the_api() -> None:
    given = {"key": "k", "due_after": "2026-12-01T12:00", "zone": BERLIN}
    search = read_search(Query(given))
    assert search.state == "scheduled"
    assert search.wanted == {"key": "k", "due_after": "2026-12-01T11:00:00.000Z"}
    assert search.bulk_url.startswith("/console/events:bulk?key=k&due_after=2026-12-01")
    finished = read_search(Query({"state": "delivered", "tag": "t"}))
    assert finished.tag is None  # tags of these are not kept
    with pytest.raises(Refusal):
        read_search(Query({"state": "lost"}))


def test_pages_of_a_list_keep_what_was_asked_for() -> None:
    query = Query({"key": "a b", "page_token": "old"})
    pager = pager_of("/console/events", query, "new")
    assert pager.first == "/console/events?key=a+b"
    assert pager.next == "/console/events?key=a+b&page_token=new"
    assert not pager.is_first
    last = pager_of("/console/topics", Query({}), None)
    assert (last.first, last.next, last.is_first) == ("/console/topics", "", True)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=3))
def test_no_name_leads_to_another_address(segments: list[str]) -> None:
    path = target(*segments)
    assert path.count("/") == 1 + len(segments)
    assert "?" not in path
    assert ":" not in path
    assert target("a", verb="pause", query={"x": "&", "y": None}) == "/v1/a:pause?x=%26"


@given(st.text(), st.sampled_from(["good", "warn", "bad"]))
def test_what_is_said_is_heard_on_the_next_page(text: str, tone: str) -> None:
    if any("\ud800" <= it <= "\udfff" for it in text):
        return
    name, cookie = say(Said(text, tone))  # type: ignore[arg-type]
    assert name == "Set-Cookie"
    assert "HttpOnly" in cookie
    said = heard(headers(Cookie=cookie.partition(";")[0]))
    assert said is not None
    assert said.text[:500] == text[:500]


@pytest.mark.parametrize("value", ["", "!!", "e30", "bnVsbA", "x" * 9000])
def test_a_cookie_of_somebody_elses_says_nothing(value: str) -> None:
    assert heard(headers(Cookie=f"halfpast_said={value}")) is None


def test_cookies_are_read_by_their_whole_name() -> None:
    given = headers(Cookie='a=1; xa=2; b="3"')
    assert read_cookie(given, "a") == "1"
    assert read_cookie(given, "b") == "3"
    assert read_cookie(given, "c") == ""
    with pytest.raises(AssertionError):
        write_cookie("a", "b; Path=/")


def test_the_menu_knows_where_one_is() -> None:
    assert current("/console") == "/console"
    assert current("/console/events?key=1") == "/console/events"
    assert current("/console/events:bulk") == "/console/events"
    assert current("/console/topics/a") == "/console/topics"
    assert current("/console/me") == ""
