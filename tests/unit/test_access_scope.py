"""Scopes allow what their verb and pattern say, and nothing else."""

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.access.access import ANONYMOUS, OPEN_ACCESS, Access
from halfpast_api.access.roles import ROLES, strongest
from halfpast_api.access.scope import BadScope, Scope, Scopes, parse_scope, parse_scopes
from halfpast_api.access.verbs import Reach, Verb, default_reach, default_verb
from halfpast_api.problems import Refusal

ALPHABET = "ab-_%"
names = st.text(ALPHABET, min_size=1, max_size=12)
patterns = st.text(ALPHABET + "*", min_size=1, max_size=10)


@given(names, patterns)
def test_a_pattern_matches_as_a_glob_does(name: str, pattern: str) -> None:
    expected = fnmatch.fnmatchcase(name, pattern)
    assert Scopes([Scope(Verb.READ, pattern)]).allow(Verb.READ, name) is expected


@given(patterns, patterns, names)
def test_what_may_be_granted_is_never_more(mine: str, given_: str, name: str) -> None:
    """A pattern that is allowed as if it were a name lets in no more than allowed."""
    ours = Scopes([Scope(Verb.READ, mine)])
    topic = None if given_ == "*" else given_
    if ours.allow(Verb.READ, topic) and fnmatch.fnmatchcase(name, given_):
        assert ours.allow(Verb.READ, name)


def test_a_bad_pattern_takes_linear_time() -> None:
    scopes = Scopes([Scope(Verb.READ, "*a" * 60)])
    assert not scopes.allow(Verb.READ, "a" * 59 + "b" * 68)


def test_scopes_add_up() -> None:
    scopes = parse_scopes(["publish:orders-*", "publish:mail", "read"])
    assert scopes.allow(Verb.PUBLISH, "orders-eu")
    assert scopes.allow(Verb.PUBLISH, "mail")
    assert not scopes.allow(Verb.PUBLISH, "mails")
    assert not scopes.allow(Verb.PUBLISH, None)
    assert scopes.allow_some(Verb.PUBLISH)
    assert scopes.allow(Verb.READ, None)
    assert scopes.allow(Verb.READ, "anything")
    assert not scopes.allow_some(Verb.MANAGE)
    assert scopes.texts == ("publish:orders-*", "publish:mail", "read")


@pytest.mark.parametrize(
    "text",
    [
        *("", "write", "open", "publish:", "publish:a b", "publish:a/b", "PUBLISH"),
        *("publish:" + "a" * 128, "publish:é", ":orders", "publish orders"),
    ],
)
def test_a_bad_scope_is_told(text: str) -> None:
    with pytest.raises(BadScope) as raised:
        parse_scope(text)
    assert raised.value.text == text


@pytest.mark.parametrize("text", ["publish", "read:a*b", "consume:%DLQ%g", "admin"])
def test_a_scope_is_written_as_it_was_read(text: str) -> None:
    assert str(parse_scope(text)) == text


def test_all_topics_is_the_verb_alone() -> None:
    assert str(parse_scope("read:*")) == "read"


def test_roles_grow() -> None:
    allowed = [
        {verb for verb in Verb if scopes.allow(verb, None)} for scopes in ROLES.values()
    ]
    assert allowed[0] < allowed[1] < allowed[2] == set(Verb) - {Verb.OPEN}
    assert strongest(["operator", "read-only"]) == "operator"
    assert strongest([]) == ""


def test_the_refusal_names_what_is_missing() -> None:
    access = Access(actor="key:k", scopes=parse_scopes(["publish:mail"]))
    with pytest.raises(Refusal, match=r"'publish:orders'.*publish:mail") as raised:
        access.check(Verb.PUBLISH, "orders")
    assert raised.value.code == "forbidden"
    with pytest.raises(Refusal, match="no scope at all"):
        ANONYMOUS.check(Verb.READ)


@pytest.mark.parametrize(
    ("reach", "topic", "allowed"),
    [
        (Reach.TOPIC, "mail", True),
        (Reach.TOPIC, "orders", False),
        (Reach.CHECKED, None, True),
        (Reach.NAMESPACE, None, False),
        (Reach.SUITE, None, False),
        (Reach.CALLER, None, True),
    ],
)
def test_reach_decides_for_how_much(
    reach: Reach, topic: str | None, allowed: bool
) -> None:
    access = Access(scopes=parse_scopes(["publish:mail"]))
    OPEN_ACCESS.check_reach(Verb.PUBLISH, reach, topic)
    if allowed:
        access.check_reach(Verb.PUBLISH, reach, topic)
        return
    with pytest.raises(Refusal):
        access.check_reach(Verb.PUBLISH, reach, topic)


def test_the_suite_is_not_for_one_namespace() -> None:
    access = Access(namespace="acme", scopes=ROLES["admin"])
    with pytest.raises(Refusal, match="all namespaces"):
        access.check_reach(Verb.READ, Reach.SUITE, None)


def test_routes_are_strict_unless_they_say_otherwise() -> None:
    assert default_verb("GET") is Verb.READ
    assert default_verb("POST") is Verb.MANAGE
    assert default_verb("DELETE") is Verb.MANAGE
    assert default_reach("/v1/topics/{topic}/due") is Reach.TOPIC
    assert default_reach("/v1/events/{id}") is Reach.NAMESPACE
