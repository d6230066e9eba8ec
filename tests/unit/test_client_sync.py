"""The sync client is the async one: nothing missing, nothing apart."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import halfpast
from halfpast.sync import Blocking, BlockingIterator


def public_methods(kind: type) -> dict[str, Callable[..., Any]]:
    return {
        name: member
        for name, member in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


def test_every_call_of_the_client_is_there() -> None:
    for name, method in public_methods(halfpast.Client).items():
        if name in ("close", "transaction"):  # other types, not calls that wait
            continue
        kind = BlockingIterator if inspect.isasyncgenfunction(method) else Blocking
        delegate = inspect.getattr_static(halfpast.SyncClient, name)
        assert isinstance(delegate, kind), name
        assert delegate.__doc__ == method.__doc__


def test_all_public_names_are_listed() -> None:
    public = {
        name
        for name, value in vars(halfpast).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public == set(halfpast.__all__)


def test_outside_of_with_it_is_closed() -> None:
    with pytest.raises(halfpast.ClientClosed):
        halfpast.SyncClient().get("x")
    with pytest.raises(halfpast.ClientClosed):
        next(halfpast.SyncClient().events())
