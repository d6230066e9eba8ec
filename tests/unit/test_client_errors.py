"""The error tree: classes by status, texts for people, pickling."""

import pickle

import pytest

import halfpast
from halfpast.errors import api_problem

STALE = halfpast.Problem(
    status=412, code="stale_version", detail="it is at version 3 now"
)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, halfpast.InvalidRequest),
        (404, halfpast.NotFound),
        (409, halfpast.Conflict),
        (412, halfpast.StaleVersion),
        (413, halfpast.InvalidRequest),
        (422, halfpast.InvalidRequest),
        (429, halfpast.QuotaExceeded),
        (507, halfpast.StoreFull),
        (403, halfpast.ApiProblem),
    ],
)
def test_the_status_decides_the_class(status: int, kind: type[Exception]) -> None:
    problem = api_problem(halfpast.Problem(status=status, code="c"))
    assert type(problem) is kind
    assert isinstance(problem, halfpast.HalfpastError)


@pytest.mark.parametrize(
    "error",
    [
        api_problem(STALE),
        halfpast.OutcomeUnknown("POST /v1/x", 3, "timed out", "key"),
        halfpast.ServerUnreachable("http://x", "refused"),
        halfpast.UnexpectedAnswer("GET /v1/x", 200, "not JSON"),
        halfpast.ClientClosed(),
    ],
)
def test_errors_survive_pickling(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)


def test_the_text_names_what_is_wrong_and_where() -> None:
    field = halfpast.FieldError("/deliver_at", "needs a time zone")
    problem = halfpast.Problem(
        status=422, code="invalid_request", detail="one field", errors=(field,)
    )
    text = str(api_problem(problem))
    assert text == "one field (422 invalid_request); /deliver_at: needs a time zone"
