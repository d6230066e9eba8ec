"""Filter expressions: what they mean, and what is said of those that mean nothing."""

import sqlite3

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.core_store_world import World

from halfpast_core_store import pull_reader
from halfpast_core_store.broker import Pull
from halfpast_core_store.errors import InvalidFilter
from halfpast_core_store.message_filter import message_filter
from halfpast_core_store.pull_reader import look
from halfpast_core_store.record import RecordKind, decode_record, encode_record
from halfpast_core_store.sql_filter import LENGTH_MAX, compile_filter
from halfpast_core_store.sql_terms import DEPTH_MAX

PROPERTIES = {
    "n": "7",
    "f": "2.5",
    "minus": "-3",
    "text": "it's blue",
    "yes": "true",
    "no": "FALSE",
    "empty": "",
    "order-id": "17",
    "a.b": "x",
    "android": "1",
}


def record(tag: bytes = b"vip", properties: dict[str, str] | None = None) -> bytes:
    given = PROPERTIES if properties is None else properties
    packed = msgspec.msgpack.encode(given) if given else b""
    return encode_record(
        RecordKind.NORMAL, key=b"key", tag=tag, properties=packed, body=b"{}"
    )


@pytest.mark.parametrize(
    "text",
    [
        "n = 7",
        "n = 7.0",
        "n = 7L",
        "n=+7",
        "N IS NULL",  # names are as they are
        "n > 6 AND n >= 7 AND n < 8 AND n <= 7 AND n <> 6",
        "7 = n",
        "f BETWEEN 2 AND 3",
        "f NOT BETWEEN 3 AND 4",
        "minus = -3",
        "minus < .5",
        "f < 1e3",
        "n > f",
        "n <> '8'",
        "text = 'it''s blue'",
        "text CONTAINS 'blue'",
        "text NOT CONTAINS 'red'",
        "text startswith 'it'",
        "text NOT STARTSWITH 'blue'",
        "text EndsWith 'blue'",
        "TAGS = 'vip'",
        "TAGS IN ('x', 'vip')",
        "TAGS NOT IN ('x')",
        "n IN (1, 7)",
        "n IN ('7')",
        "n NOT IN (1, 2)",
        "missing IS NULL",
        "n IS NOT NULL",
        "empty IS NOT NULL AND empty = ''",
        "yes",
        "yes = TRUE AND no = false AND yes <> FALSE",
        "NOT no",
        "NOT n = 8",
        "NOT (n = 8 OR n = 9)",
        "TRUE",
        "missing = 1 OR n = 7",
        "NOT (missing = 1 AND n = 8)",
        "((n)) = ((7))",
        "n = 8 OR n = 7 AND TAGS = 'vip'",
        "order-id = 17 AND a.b = 'x' AND android = 1",
        "\n n\t=\r\n7 ",
        "n in(7)and TAGS='vip'or n=8",
    ],
)
def test_it_is_true(text: str) -> None:
    assert compile_filter(text).matches(record())


@pytest.mark.parametrize(
    "text",
    [
        "n = 8",
        "n = '7.0'",  # as text
        "missing = 1",
        "NOT missing = 1",
        "missing <> 1",
        "missing NOT IN ('a')",
        "missing NOT BETWEEN 1 AND 2",
        "missing NOT CONTAINS 'x'",
        "missing = missing",
        "text > 5",
        "NOT text > 5",
        "text NOT IN (1)",
        "text = TRUE",
        "text = FALSE",
        "text",
        "missing",
        "FALSE",
        "n IS NULL",
        "n = 8 AND missing = 1",
        "(n = 8 OR n = 7) AND TAGS = 'x'",
        "empty = 0",
    ],
)
def test_it_is_not_true(text: str) -> None:
    assert not compile_filter(text).matches(record())


@pytest.mark.parametrize(
    "value", ["0x7", " 7", "7 ", "1_0", "\u0667", "nan", "inf", "7e"]
)
def test_only_plain_numbers_are_numbers(value: str) -> None:
    found = record(properties={"n": value})
    assert not compile_filter("n > -1e300").matches(found)
    assert not compile_filter("NOT n > -1e300").matches(found)


def test_large_numbers_are_compared_exactly_and_larger_ones_roughly() -> None:
    found = record(properties={"n": "999999999999999999", "m": "9" * 5000})
    assert compile_filter("n = 999999999999999999").matches(found)
    assert not compile_filter("n = 999999999999999998").matches(found)
    assert compile_filter("m > n").matches(found)


def test_a_message_without_tag_and_properties_has_neither() -> None:
    bare = record(tag=b"", properties={})
    assert compile_filter("TAGS IS NULL AND n IS NULL").matches(bare)


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("", 0, "expected a property or a value, but the filter ends"),
        ("   ", 3, "but the filter ends"),
        ("n >", 3, "expected a property or a value, but the filter ends"),
        ("n = = 3", 4, "'=' stands there"),
        ("n 5", 2, "expected a comparison such as"),
        ("n = 1 m = 2", 6, "'m' stands there"),
        ("(n = 1", 6, "expected ')'"),
        ("n = 1)", 5, "expected nothing more, but ')' stands there"),
        ("n IN ()", 6, "expected a value"),
        ("n IS 5", 5, "expected NULL"),
        ("n NOT LIKE 'x'", 6, "expected IN, BETWEEN or CONTAINS"),
        ("n CONTAINS m", 11, "expected text in single quotes"),
        ('n = "x"', 4, "single quotes"),
        ("n != 3", 2, "<>"),
        ("n + 1 = 3", 2, "no arithmetic"),
        ("n = 'x", 4, "has no end"),
        ("n = ;", 4, "';' means nothing here"),
        ("n > 'x'", 4, "only numbers have an order"),
        ("n > TRUE", 4, "only numbers have an order"),
        ("n BETWEEN 'a' AND 'b'", 10, "only numbers have an order"),
        ("n BETWEEN 5 AND 1", 10, "above the upper one"),
        ("n = NULL", 4, "say IS NULL"),
        ("5 = TRUE", 4, "this cannot equal a number"),
        ("n IN (1, TRUE)", 9, "numbers and text only"),
        ("n IN (NULL)", 6, "numbers and text only"),
        ("5", 0, "a value alone is no condition"),
        ("n = 1 AND 'x'", 10, "a value alone is no condition"),
        ("(n = 1) = 2", 1, "a condition cannot be compared"),
        ("n CONTAINS ''", 11, "this text is empty"),
        ("n = 1 AND NULL", 10, "a value alone is no condition"),
        ("NOT " * DEPTH_MAX + "n = 1", 4 * DEPTH_MAX, "levels deep"),
        ("n = 1 OR " * 1000 + "n = 1", LENGTH_MAX, "at most 4000 characters"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    text: str, position: int, reason: str
) -> None:
    with pytest.raises(InvalidFilter) as caught:
        compile_filter(text)
    assert caught.value.position == position
    assert reason in caught.value.reason
    assert f"character {position + 1}:" in str(caught.value)


def test_brackets_and_long_rows_of_conditions_are_not_deep() -> None:
    assert compile_filter("(" * 500 + "n = 7" + ")" * 500).matches(record())
    assert compile_filter("n = 7 AND " * 300 + "n = 7").matches(record())


@given(st.text(alphabet="nN=<>'()!-+.,;AORDTI 017\"\0é", max_size=30))
@settings(max_examples=300)
def test_any_text_is_a_filter_or_is_refused(text: str) -> None:
    position = 0
    try:
        compile_filter(text).matches(record())
    except InvalidFilter as error:
        position = error.position
    assert 0 <= position <= len(text)


# --- sqlite as a second opinion -------------------------------------------------------

NUMBERS = ("n1", "n2")
TEXTS = ("t1", "t2")
numbers = st.integers(-3, 3) | st.sampled_from([0.5, -1.5, 2.25])
words = st.sampled_from(["", "a", "b", "it''s"])
signs = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
number_parts = st.sampled_from(NUMBERS) | numbers.map(str)
text_parts = st.sampled_from(TEXTS) | words.map(lambda word: f"'{word}'")
negations = st.sampled_from(["", "NOT "])


def spans() -> st.SearchStrategy[str]:
    return st.tuples(numbers, numbers).map(lambda ends: f"{min(ends)} AND {max(ends)}")


def lists(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(values, min_size=1, max_size=3).map(lambda it: f"({', '.join(it)})")


conditions = st.one_of(
    st.builds("{} {} {}".format, st.sampled_from(NUMBERS), signs, number_parts),
    st.builds(
        "{} {} {}".format,
        st.sampled_from(TEXTS),
        st.sampled_from(["=", "<>"]),
        text_parts,
    ),
    st.builds("{} {}BETWEEN {}".format, st.sampled_from(NUMBERS), negations, spans()),
    st.builds(
        "{} {}IN {}".format,
        st.sampled_from(NUMBERS),
        negations,
        lists(numbers.map(str)),
    ),
    st.builds(
        "{} {}IN {}".format,
        st.sampled_from(TEXTS),
        negations,
        lists(words.map(lambda word: f"'{word}'")),
    ),
    st.builds("{} IS {}NULL".format, st.sampled_from([*NUMBERS, *TEXTS]), negations),
    st.sampled_from(["TRUE", "FALSE"]),
)
expressions = st.recursive(
    conditions,
    lambda inner: st.one_of(
        st.builds("{} AND {}".format, inner, inner),
        st.builds("{} OR {}".format, inner, inner),
        st.builds("NOT ({})".format, inner),
        st.builds("NOT {}".format, inner),
        st.builds("({})".format, inner),
    ),
    max_leaves=8,
)
rows = st.fixed_dictionaries(
    {},
    optional={
        **{name: numbers.map(str) for name in NUMBERS},
        **{name: st.sampled_from(["", "a", "b", "it's"]) for name in TEXTS},
    },
)


@given(expressions, st.lists(rows, min_size=1, max_size=5))
@settings(max_examples=300, deadline=None)
def test_sqlite_agrees(expression: str, messages: list[dict[str, str]]) -> None:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE m (n1 NUMERIC, n2 NUMERIC, t1 TEXT, t2 TEXT)")
    for message in messages:
        values = [message.get(name) for name in (*NUMBERS, *TEXTS)]
        database.execute("INSERT INTO m VALUES (?, ?, ?, ?)", values)
    wanted = [bool(row[0]) for row in database.execute(f"SELECT {expression} FROM m")]
    database.close()
    matches = compile_filter(expression).matches
    assert [matches(record(b"", message)) for message in messages] == wanted


# --- in a pop -------------------------------------------------------------------------


def test_a_pop_passes_over_what_is_not_wanted_for_good() -> None:
    world = World()
    world.topic("orders", 1)
    for amount in (50, 150, 250):
        packed = msgspec.msgpack.encode({"amount": str(amount)})
        world.publish([b"%d" % amount], properties=packed)
    plan = world.pop(filter="amount > 100")
    assert [decode_record(it.record).body for it in plan.delivered] == [b"150", b"250"]
    assert world.pop().delivered == []


def test_a_wrong_filter_changes_nothing() -> None:
    world = World()
    world.publish([b"1"])
    live = world.contents()
    with pytest.raises(InvalidFilter):
        world.pop(group="fresh", filter="amount >")
    world.pump()
    assert world.contents() == live
    assert world.store.registry.group("fresh") is None


def test_one_look_of_a_pull_passes_over_so_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pull_reader, "SCAN_MAX", 3)
    monkeypatch.setattr(pull_reader, "SCAN_COUNT", 2)
    world = World()
    for number in range(10):
        packed = msgspec.msgpack.encode({"n": str(number)})
        world.publish([b"%d" % number], properties=packed)
    topic, queues = world.topic(), world.store.queues
    request = Pull("orders", 0, 0, filter="n IN (2, 3, 9)")
    matches = message_filter(request.tags, request.filter)
    offset, got = 0, list[int]()
    for _ in range(10):
        looked = look(queues, topic.id, request, offset, matches)
        got += [queued.offset for queued in looked.found]
        offset = looked.next_offset
        if not looked.is_cut:
            break
    assert (got, offset) == ([2, 3, 9], 10)
    request.count = 1
    looked = look(queues, topic.id, request, 0, message_filter([], "n > 4"))
    assert (looked.found, looked.is_cut) == ([], True)
    looked = look(queues, topic.id, request, 3, message_filter([], "n > 4"))
    assert ([it.offset for it in looked.found], looked.next_offset) == ([5], 6)


def test_tags_and_an_expression_must_both_want_a_message() -> None:
    matches = message_filter(["vip"], "n = 7")
    assert matches is not None
    assert matches(record())
    assert not matches(record(tag=b"x"))
    assert not matches(record(properties={"n": "8"}))
    assert message_filter([], "") is None
