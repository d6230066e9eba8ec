"""Which answers end a transaction: only explicit ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_txn.check_answer import (
    ANSWERS,
    BAD_STATE,
    NO_STATE,
    NOT_JSON,
    REDIRECT,
    RESULTS,
    Health,
    Outcome,
    read_answer,
    read_status,
)
from halfpast_txn.transactions import TransactionState


@pytest.mark.parametrize(
    ("body", "state", "cause"),
    [
        (b'{"state":"committed"}', TransactionState.COMMITTED, ""),
        (b' {"state" : "rolled_back"}\n', TransactionState.ROLLED_BACK, ""),
        (b'{"state":"unknown"}', 0, "unknown"),
        (b'{"other":{"state":"unknown"},"state":"committed"}', 2, ""),
        (b'{"\\u0073tate":"committed"}', 2, ""),
    ],
)
def test_explicit_words(body: bytes, state: int, cause: str) -> None:
    outcome = read_answer(body)
    assert (outcome.verdict.state, outcome.verdict.cause) == (state, cause)
    assert outcome.health == Health.WORKS


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (b"", NOT_JSON),
        (b"committed", NOT_JSON),
        (b'{"state":"committed"', NOT_JSON),
        (b'{"state":"committed"}{}', NOT_JSON),
        (b'{"state":"committed"} \0', NOT_JSON),
        (b'{"state":"committed","x":"\xff"}', NOT_JSON),
        (b'\xef\xbb\xbf{"state":"committed"}', NOT_JSON),
        ('{"state":"committed"}'.encode("utf-16"), NOT_JSON),
        (b"[" * 60_000, NOT_JSON),
        (b'{"a":' * 13_000, NOT_JSON),
        (b"9" * 60_000, NOT_JSON),
        (b"null", NO_STATE),
        (b'"committed"', NO_STATE),
        (b'[["state","committed"]]', NO_STATE),
        (b'[{"state":"committed"}]', NO_STATE),
        (b"{}", NO_STATE),
        (b'{"data":{"state":"committed"}}', NO_STATE),
        (b'{"State":"committed"}', NO_STATE),
        (b'{"state":"committed","state":"committed"}', BAD_STATE),
        (b'{"state":"committed","state":"rolled_back"}', BAD_STATE),
        (b'{"state":"unknown","\\u0073tate":"committed"}', BAD_STATE),
        (b'{"state":"COMMITTED"}', BAD_STATE),
        (b'{"state":" committed"}', BAD_STATE),
        (b'{"state":"prepared"}', BAD_STATE),
        (b'{"state":null}', BAD_STATE),
        (b'{"state":true}', BAD_STATE),
        (b'{"state":2}', BAD_STATE),
        (b'{"state":["committed"]}', BAD_STATE),
        (b'{"state":{"committed":1}}', BAD_STATE),
    ],
)
def test_all_else_is_unknown(body: bytes, outcome: Outcome) -> None:
    assert read_answer(body) == outcome
    assert outcome.verdict.state == 0


@given(
    st.binary(max_size=60) | st.text(alphabet='{}[]":,state commid0\\u', max_size=60)
)
def test_noise_ends_nothing(noise: bytes | str) -> None:
    body = noise if isinstance(noise, bytes) else noise.encode()
    outcome = read_answer(body)
    if outcome.verdict.state:
        assert b"state" in body or b"\\u" in body
    else:
        assert outcome.verdict.cause


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_a_2xx_leaves_it_to_the_body(status: int) -> None:
    assert read_status(status) is None


@pytest.mark.parametrize(
    ("status", "health"),
    [
        (400, Health.WORKS),
        (401, Health.WORKS),
        (404, Health.WORKS),
        (410, Health.FAILS),
        (429, Health.FAILS),
        (500, Health.FAILS),
        (503, Health.FAILS),
        (999, Health.FAILS),
        (199, Health.WORKS),
    ],
)
def test_other_statuses_are_no_answer(status: int, health: Health) -> None:
    outcome = read_status(status)
    assert outcome is not None
    assert outcome.verdict.cause == f"http {status}"
    assert (outcome.verdict.state, outcome.health) == (0, health)
    assert outcome.result == "http_error"


def test_redirects_are_called_that() -> None:
    assert {read_status(status) for status in (300, 301, 302, 307, 308)} == {REDIRECT}


def test_results_are_named_once() -> None:
    assert len(set(RESULTS)) == len(RESULTS)
    assert set(ANSWERS) < set(RESULTS)
