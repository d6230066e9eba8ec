"""Names of different namespaces never meet."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from halfpast_api.access.namespaced_names import (
    Names,
    check_namespace,
    is_namespace,
    split_name,
)
from halfpast_api.metadata.errors import InvalidSettings
from halfpast_api.problems import Refusal
from halfpast_core_store.topics import NAME_LENGTH_MAX

names = st.from_regex(r"(%DLQ%)?[a-z][a-z%_-]{0,20}", fullmatch=True)
spaces = st.sampled_from(["a", "b", "acme", "b-2"])
KNOWN = {"a", "b", "acme", "b-2"}


def of(namespace: str) -> Names:
    return Names(namespace, lambda: KNOWN)


@given(spaces, names)
def test_a_name_comes_back(namespace: str, name: str) -> None:
    stored = of(namespace).inside(name)
    assert stored is not None
    assert of(namespace).outside(stored) == name
    assert split_name(stored)[0] == namespace


@given(spaces, spaces, names)
def test_others_do_not_see_it(one: str, other: str, name: str) -> None:
    assume(one != other)
    stored = of(one).inside(name)
    assert stored is not None
    assert of(other).outside(stored) is None
    assert of("").outside(stored) is None
    assert of("").inside(stored) is None  # nor can the default one name it


@given(names)
def test_a_default_name_is_itself_or_anothers(name: str) -> None:
    stored = of("").inside(name)
    assert stored in (None, name)
    owners = [it for it in KNOWN if of(it).outside(name) is not None]
    assert len(owners) == (stored is None)


def test_a_percent_sign_is_just_that_without_such_a_namespace() -> None:
    assert of("").inside("c%d") == "c%d"
    assert of("").outside("c%d") == "c%d"


def test_dead_letters_stay_in_their_namespace() -> None:
    assert of("acme").inside("%DLQ%billing") == "%DLQ%acme%billing"
    assert of("acme").outside("%DLQ%acme%billing") == "%DLQ%billing"
    assert of("").outside("%DLQ%acme%billing") is None
    assert of("").outside("%DLQ%billing") == "%DLQ%billing"


def test_a_name_that_is_too_long_with_its_namespace_is_refused() -> None:
    room = NAME_LENGTH_MAX - len("acme%")
    assert of("acme").inside("x" * room)
    with pytest.raises(Refusal, match=f"may have {room}"):
        of("acme").inside("x" * (room + 1))


@pytest.mark.parametrize("name", ["acme", "A1", "0", "a_b-c", "x" * 32])
def test_good_namespaces(name: str) -> None:
    assert is_namespace(name)
    check_namespace(name)


@pytest.mark.parametrize(
    "name",
    [*("", "-a", "_a", "a%b", "a b", "é", "x" * 33, "SYS_x", "TRANS_", "DLQ", "a/b")],
)
def test_bad_namespaces(name: str) -> None:
    assert not is_namespace(name)
    with pytest.raises(InvalidSettings):
        check_namespace(name)
