"""Keys: how they look, what is stored of them, and who they let in."""

import hmac
from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.access import secret_digest
from halfpast_api.access.key_ring import KeyRing
from halfpast_api.access.key_text import (
    KEY_LENGTH,
    hint,
    is_complete,
    is_id,
    key_id_of,
    new_id,
    new_key,
)
from halfpast_api.access.secret_digest import digest, new_salt
from halfpast_api.access.verbs import Verb
from halfpast_api.metadata.access_settings import (
    KeySecret,
    KeySettings,
    NamespaceSettings,
    check_access,
)
from halfpast_api.metadata.errors import InvalidSettings
from halfpast_api.problems import Refusal

NOW_MS = 1_000_000
ID = "k3x9q2mv"


class Source:
    """Keys and namespaces in memory."""

    def __init__(self) -> None:
        self.keys: dict[str, KeySettings] = {}
        self.spaces: dict[str, NamespaceSettings] = {}

    def key_settings(self, key_id: str) -> KeySettings | None:
        return self.keys.get(key_id)

    def namespaces(self) -> Mapping[str, NamespaceSettings]:
        return self.spaces


def secret_of(text: str, expires_at_ms: int = 0) -> KeySecret:
    salt = new_salt()
    return KeySecret(
        digest=digest(text, salt),
        salt=salt,
        hint=hint(text),
        created_at_ms=1,
        expires_at_ms=expires_at_ms,
    )


class World:
    """One key, and a ring that knows it."""

    def __init__(self, **settings: object) -> None:
        self.source = Source()
        self.text = new_key(ID)
        base = KeySettings(role="operator", secrets=(secret_of(self.text),))
        self.source.keys[ID] = replace(base, **settings)  # type: ignore[arg-type]
        self.ring = KeyRing(self.source, lambda: NOW_MS)

    def change(self, **settings: object) -> None:
        self.source.keys[ID] = replace(self.source.keys[ID], **settings)  # type: ignore[arg-type]


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=5, max_size=5))
def test_a_key_is_complete_and_says_its_id(secret: bytes, number: bytes) -> None:
    key_id = new_id(lambda size: number[:size])
    text = new_key(key_id, lambda size: secret[:size])
    assert len(text) == KEY_LENGTH
    assert is_complete(text)
    assert is_id(key_id)
    assert key_id_of(text) == key_id


@given(st.integers(0, KEY_LENGTH - 1), st.sampled_from("aZ0_-é "))
def test_a_mistyped_key_is_told(at: int, char: str) -> None:
    text = new_key(ID, lambda size: b"\x07" * size)
    broken = text[:at] + char + text[at + 1 :]
    assert is_complete(broken) is (broken == text)
    assert not is_complete(text[:at])


def test_keys_differ() -> None:
    assert len({new_key(ID) for _ in range(100)}) == 100
    assert len({digest("same", new_salt()) for _ in range(100)}) == 100


def test_secrets_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(left: bytes, right: bytes) -> bool:
        compared.append((left, right))
        return hmac.compare_digest(left, right)

    class Spy:
        compare_digest = staticmethod(compare)

    monkeypatch.setattr(secret_digest, "hmac", Spy)
    world = World()
    assert world.ring.verify(world.text)
    assert len(compared) == 1
    with pytest.raises(Refusal):
        world.ring.verify(new_key("00000000"))  # the same work for nobody's key
    assert len(compared) == 2
    assert all(len(left) == len(right) == 32 for left, right in compared)


def test_the_digest_is_keyed() -> None:
    salt = new_salt()
    assert digest("a", salt) != digest("a", new_salt())
    assert digest("a", salt) != blake2b(b"a", digest_size=32).hexdigest()


def test_a_key_lets_in() -> None:
    world = World(namespace="acme", view_payload=True)
    world.source.spaces["acme"] = NamespaceSettings()
    access = world.ring.verify(world.text)
    assert (access.namespace, access.actor, access.key_id) == ("acme", f"key:{ID}", ID)
    assert (access.role, access.kind) == ("operator", "key")
    assert access.may_view_payload
    assert access.allows(Verb.PUBLISH, "x")
    assert not access.allows(Verb.ADMIN)
    assert world.ring.used == {ID: NOW_MS}


@pytest.mark.parametrize(
    "text", ["", "hp_", "key", "hp_k3x9q2mv", "hp_k3x9q2mv_", "hp_k3x9q2mv_x", "é" * 60]
)
def test_what_is_no_key_is_refused_and_not_shown(text: str) -> None:
    world = World()
    with pytest.raises(Refusal) as raised:
        world.ring.verify(text)
    assert raised.value.code == "unauthenticated"
    assert dict(raised.value.headers)["WWW-Authenticate"].startswith("Bearer")
    assert len(text) < 13 or text not in str(raised.value)


def test_another_secret_of_the_same_id_is_refused() -> None:
    world = World()
    other = new_key(ID)
    with pytest.raises(Refusal, match="no key is like this") as raised:
        world.ring.verify(other)
    assert other not in str(raised.value)
    assert world.ring.used == {}


@pytest.mark.parametrize(
    ("settings", "code", "word"),
    [
        ({"revoked_at_ms": 5}, "unauthenticated", "revoked"),
        ({"expires_at_ms": NOW_MS}, "key_expired", "expired"),
        ({"namespace": "gone"}, "unauthenticated", "does not exist"),
    ],
)
def test_a_key_that_does_not_count(
    settings: dict[str, object], code: str, word: str
) -> None:
    world = World(**settings)
    with pytest.raises(Refusal, match=word) as raised:
        world.ring.verify(world.text)
    assert raised.value.code == code


def test_a_key_counts_until_it_expires() -> None:
    world = World(expires_at_ms=NOW_MS + 1)
    assert world.ring.verify(world.text)


def test_a_suspended_namespace_lets_nobody_in() -> None:
    world = World(namespace="acme")
    world.source.spaces["acme"] = NamespaceSettings(suspended=True)
    with pytest.raises(Refusal) as raised:
        world.ring.verify(world.text)
    assert raised.value.code == "namespace_suspended"


def test_a_change_is_heeded_at_once() -> None:
    world = World()
    assert world.ring.verify(world.text).allows(Verb.MANAGE)
    world.change(role="read-only")
    assert not world.ring.verify(world.text).allows(Verb.MANAGE)
    world.change(revoked_at_ms=NOW_MS)
    with pytest.raises(Refusal):
        world.ring.verify(world.text)
    with pytest.raises(Refusal):
        world.ring.access_of(ID)
    del world.source.keys[ID]
    with pytest.raises(Refusal):
        world.ring.access_of(ID)


def test_two_secrets_count_until_the_old_one_ends() -> None:
    world = World()
    newer = new_key(ID)
    old, new = secret_of(world.text, NOW_MS + 1), secret_of(newer)
    world.change(secrets=(new, old))
    assert world.ring.verify(newer) == world.ring.verify(world.text)
    world.change(secrets=(new, replace(old, expires_at_ms=NOW_MS)))
    assert world.ring.verify(newer)
    with pytest.raises(Refusal, match="replaced"):
        world.ring.verify(world.text)


def test_made_up_keys_leave_nothing_behind() -> None:
    world = World()
    for _ in range(1000):
        with pytest.raises(Refusal):
            world.ring.verify(new_key(new_id()))
    assert world.ring.remembered == 0
    assert world.ring.used == {}


def test_a_scope_of_a_later_release_gives_nothing() -> None:
    world = World(role="", scopes=("read", "teleport:*"))
    assert world.ring.verify(world.text).scopes.texts == ("read",)
    world.change(role="emperor", scopes=())
    assert not world.ring.verify(world.text).allows_some(Verb.READ)


@pytest.mark.parametrize(
    "settings",
    [
        KeySettings(),
        KeySettings(role="admin", scopes=("read",)),
        KeySettings(role="admin", description="x" * 1001),
        KeySettings(role="admin", description="a\0"),
        KeySettings(scopes=("read",) * 65),
        KeySettings(role="admin", secrets=(secret_of("a"),) * 3),
    ],
)
def test_settings_that_cannot_be(settings: KeySettings) -> None:
    with pytest.raises(InvalidSettings):
        check_access(settings)
