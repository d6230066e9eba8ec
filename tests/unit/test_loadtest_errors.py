"""Errors carry their data, also through pickle."""

import pickle

import pytest

from halfpast_loadtest.errors import (
    BadSetting,
    LoadtestError,
    NotEnoughRoom,
    OutcomeUnknown,
    PostgresUnavailable,
    RequestFailed,
    ServerNotReady,
    UnknownBench,
)


@pytest.mark.parametrize(
    "error",
    [
        ServerNotReady("no answer", "Traceback"),
        OutcomeUnknown("connection lost"),
        RequestFailed("POST /v1", 422, b"{}"),
        NotEnoughRoom("/tmp", 20_000_000_000, 5_000_000_000),
        PostgresUnavailable("there is none"),
        UnknownBench("x", ("a", "b")),
        BadSetting("x", "1", ("a",)),
    ],
)
def test_errors_survive_pickle(error: LoadtestError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert str(error)
