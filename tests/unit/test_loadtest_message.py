"""What pull and pop answer, decoded without changing a byte of the payload."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from halfpast_loadtest.message import parse_popped, parse_pulled, to_ms, to_rfc3339

POPPED = b"""{"messages":[{"receipt":"r","id":"i","topic":"t","queue":1,"offset":7,
"key":null,"tag":null,"properties":{},"data": {"a" : 1.50, "b":"\\u00e9"},
"born_at":"2026-11-20T00:00:00.000Z","stored_at":"2026-11-20T00:00:00.123Z",
"deliver_at":"2026-11-20T00:00:00.120Z","attempt":2}]}"""
PULLED = b"""{"messages":[{"id":"i","topic":"t","queue":0,"offset":0,"key":"k",
"data_base64":"AAH/","stored_at":"2026-11-20T00:00:00.000Z","deliver_at":null}],
"next_offset":1,"min_offset":0,"max_offset":1}"""


def test_a_popped_message_keeps_the_spelling_of_its_data() -> None:
    [message] = parse_popped(POPPED)
    assert message.data == b'{"a" : 1.50, "b":"\\u00e9"}'
    assert message.due_ms is not None
    assert message.stored_ms - message.due_ms == 3
    assert (message.queue, message.offset, message.attempt) == (1, 7, 2)
    assert message.receipt == "r"


def test_a_pulled_message_may_be_binary() -> None:
    page = parse_pulled(PULLED)
    assert page.messages[0].data == b"\x00\x01\xff"
    assert page.messages[0].due_ms is None
    assert page.next_offset == 1


@given(st.integers(0, 4_000_000_000_000))
def test_milliseconds_survive_the_text_form(epoch_ms: int) -> None:
    text = to_rfc3339(epoch_ms)
    assert to_ms(datetime.fromisoformat(text)) == epoch_ms


def test_the_text_form_is_utc_with_milliseconds() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=UTC)
    assert to_rfc3339(to_ms(moment)) == "2026-01-02T03:04:05.006Z"
