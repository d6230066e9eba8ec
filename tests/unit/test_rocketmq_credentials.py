"""Signatures of RocketMQ's clients: who is let in by them, and who is not."""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.access.access import OPEN_ACCESS
from halfpast_api.access.config import AuthMode, SignatureConfig
from halfpast_api.access.door import Door
from halfpast_api.access.key_ring import KeyRing
from halfpast_api.access.key_text import new_signing_secret, signing_hint
from halfpast_api.access.redaction import redact_text
from halfpast_api.access.sessions import Sessions
from halfpast_api.access.site_guard import SiteGuard
from halfpast_api.access.verbs import Verb
from halfpast_api.metadata.access_settings import (
    KeySettings,
    NamespaceSettings,
    SigningSecret,
)
from halfpast_api.problems import Refusal
from halfpast_api.rocketmq.credentials import Credentials

ID = "k3x9q2mv"
SECRET = "hps_k3x9q2mv_secret"
TIME = "20261120T135436Z"
NOW_S = datetime(2026, 11, 20, 13, 54, 36, tzinfo=UTC).timestamp()
# printf 20261120T135436Z | openssl dgst -sha1 -hmac hps_k3x9q2mv_secret
SIGNATURE = "6e17e91ec70bd374145be3d03c223215faee2ed5"


class Source:
    """Keys and namespaces in memory."""

    def __init__(self) -> None:
        self.keys: dict[str, KeySettings] = {}
        self.spaces: dict[str, NamespaceSettings] = {}

    def key_settings(self, key_id: str) -> KeySettings | None:
        return self.keys.get(key_id)

    def has_keys(self) -> bool:
        return bool(self.keys)

    def namespaces(self) -> Mapping[str, NamespaceSettings]:
        return self.spaces


class World:
    """One key that signs, and a front that knows it."""

    def __init__(
        self,
        mode: AuthMode = "keys",
        config: SignatureConfig | None = None,
        **settings: Any,
    ) -> None:
        self.source = Source()
        self.now_s = NOW_S
        secret = SigningSecret(text=SECRET, created_at_ms=1)
        key = KeySettings(scopes=("publish:orders-*",), signing_secrets=(secret,))
        self.source.keys[ID] = replace(key, **settings)
        ring = KeyRing(self.source, lambda: int(self.now_s * 1000))
        nobody = cast(Sessions, SimpleNamespace())  # no cookies come by gRPC
        door = Door(mode, self.source, ring, nobody, SiteGuard())
        config = config or SignatureConfig()
        self.credentials = Credentials(door, ring, config, lambda: self.now_s)

    def refused(self, metadata: Mapping[str, str]) -> Refusal:
        with pytest.raises(Refusal) as raised:
            self.credentials.verify(metadata)
        assert SECRET not in str(raised.value)
        return raised.value


def signed(
    secret: str = SECRET,
    key_id: str = ID,
    at: str = TIME,
    render: Callable[[str], str] = str,
    **more: str,
) -> dict[str, str]:
    """What a client sends; `more` in metadata names with _ for -."""
    digits = render(hmac.new(secret.encode(), at.encode(), "sha1").hexdigest())
    header = (
        f"MQv2-HMAC-SHA1 Credential={key_id}, SignedHeaders=x-mq-date-time, "
        f"Signature={digits}"
    )
    other = {name.replace("_", "-"): value for name, value in more.items()}
    return {"authorization": header, "x-mq-date-time": at, **other}


def test_the_signature_is_the_one_that_openssl_makes() -> None:
    assert SIGNATURE in signed()["authorization"]


@pytest.mark.parametrize(
    "metadata",
    [
        signed(),
        signed(render=str.upper),  # Node, C#, C++
        signed(key_id=f"{ID}//Rocketmq"),  # Go, C++
        signed(key_id=f"hp_{ID}"),  # whoever copies too much
        signed(at="2026-11-20T13:54:36.123456789Z"),  # Rust
        signed(at="2026-11-20T21:54:36+08:00"),  # Rust, in its own zone
    ],
)
def test_clients_of_all_languages_are_let_in(metadata: Mapping[str, str]) -> None:
    access = World().credentials.verify(metadata)
    assert (access.actor, access.key_id) == (f"key:{ID}", ID)
    assert access.allows(Verb.PUBLISH, "orders-eu")
    assert not access.allows(Verb.PUBLISH, "bills")
    assert not access.allows_some(Verb.CONSUME)


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"authorization": ""},
        {"authorization": "Basic eDp5"},
        {"authorization": "MQv2-HMAC-SHA1"},
        signed(key_id=""),  # Python sends this without credentials
        {**signed(), "authorization": signed()["authorization"][:-1]},
        signed(secret=new_signing_secret(ID)),
        signed(key_id="00000000"),
        signed(key_id="é" * 8),
        {**signed(), "x-mq-date-time": "20261120T135437Z"},
        {**signed(), "x-mq-date-time": ""},
        {"authorization": signed()["authorization"]},
        signed(at="yesterday"),
        signed(at="20261120"),
        signed(at="9" * 1000),
        signed(at="\uff12\uff10261120T135436Z"),
    ],
)
def test_others_are_not(metadata: Mapping[str, str]) -> None:
    assert World().refused(metadata).code == "unauthenticated"


def test_a_signature_of_something_else_is_named() -> None:
    metadata = signed()
    header = metadata["authorization"].replace("x-mq-date-time", "x-mq-request-id")
    refusal = World().refused({**metadata, "authorization": header})
    assert "x-mq-request-id" in refusal.detail


def test_nobodys_key_gets_the_same_answer_as_a_wrong_secret() -> None:
    world = World()
    wrong = world.refused(signed(secret="guess"))
    nobodys = world.refused(signed(key_id="00000000"))
    without = World(signing_secrets=()).refused(signed())
    assert wrong.detail == nobodys.detail == without.detail


def test_the_comparison_takes_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from halfpast_api.rocketmq import credentials

    lengths: list[tuple[int, int]] = []

    def compare(left: bytes, right: bytes) -> bool:
        lengths.append((len(left), len(right)))
        return hmac.compare_digest(left, right)

    spy = SimpleNamespace(compare_digest=compare, digest=hmac.digest)
    monkeypatch.setattr(credentials, "hmac", spy)
    world = World()
    assert world.credentials.verify(signed())
    world.refused(signed(secret="guess"))
    world.refused(signed(key_id="00000000"))  # the same work for nobody's key
    assert lengths == [(20, 20)] * 3


@given(st.text(max_size=200), st.text(max_size=60))
def test_nothing_that_is_sent_breaks_it(header: str, at: str) -> None:
    refusal = World().refused({"authorization": header, "x-mq-date-time": at})
    assert refusal.code == "unauthenticated"


@pytest.mark.parametrize(
    ("language", "off_s", "is_let_in"),
    [
        ("JAVA", 0, True),
        ("JAVA", 900, True),
        ("JAVA", -900, True),
        ("JAVA", 901, False),
        ("HTTP", -3600, False),  # which is what Node calls itself
        ("PYTHON", 8 * 3600, True),  # it signs the time of its own zone
        ("PYTHON", -12 * 3600, True),
        ("PYTHON", 15 * 3600, False),
    ],
)
def test_clocks_may_be_off_by_a_quarter_of_an_hour(
    language: str, off_s: int, is_let_in: bool
) -> None:
    world = World()
    world.now_s -= off_s
    metadata = signed(x_mq_language=language)
    if is_let_in:
        assert world.credentials.verify(metadata)
        return
    refusal = world.refused(metadata)
    assert TIME in refusal.detail
    assert "clock" in refusal.detail


def test_local_time_can_be_forbidden() -> None:
    world = World(config=SignatureConfig(local_time=False))
    world.now_s -= 3600
    assert "clock" in world.refused(signed(x_mq_language="PYTHON")).detail


def test_an_old_secret_counts_until_its_time_is_over() -> None:
    now_ms = int(NOW_S * 1000)
    new = new_signing_secret(ID)
    world = World(
        signing_secrets=(
            SigningSecret(text=new, created_at_ms=2),
            SigningSecret(text=SECRET, created_at_ms=1, expires_at_ms=now_ms + 1),
        )
    )
    assert world.credentials.verify(signed())
    assert world.credentials.verify(signed(secret=new))
    world.now_s += 1
    assert "replaced" in world.refused(signed()).detail
    assert world.credentials.verify(signed(secret=new))


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"revoked_at_ms": 5}, "unauthenticated"),
        ({"expires_at_ms": 5}, "key_expired"),
        ({"namespace": "gone"}, "unauthenticated"),
        ({"namespace": "shut"}, "namespace_suspended"),
    ],
)
def test_a_key_that_does_not_count_signs_in_vain(
    settings: dict[str, Any], code: str
) -> None:
    world = World(**settings)
    world.source.spaces["shut"] = NamespaceSettings(suspended=True)
    assert world.refused(signed()).code == code


def test_the_namespace_is_the_keys_or_the_one_that_the_call_names() -> None:
    bound = World(namespace="acme")
    bound.source.spaces |= {"acme": NamespaceSettings(), "b": NamespaceSettings()}
    verify = bound.credentials.verify
    assert verify(signed()).namespace == "acme"
    assert verify(signed(x_mq_namespace="")).namespace == "acme"
    assert verify(signed(x_mq_namespace="acme")).namespace == "acme"
    assert bound.refused(signed(x_mq_namespace="b")).code == "unknown_namespace"
    assert bound.refused(signed(x_mq_namespace="no")).code == "unknown_namespace"
    suite = World(all_namespaces=True)
    suite.source.spaces["b"] = NamespaceSettings()
    assert suite.credentials.verify(signed()).namespace == ""
    assert suite.credentials.verify(signed(x_mq_namespace="b")).namespace == "b"
    assert suite.refused(signed(x_mq_namespace="no")).code == "unknown_namespace"


def test_a_resource_may_name_its_namespace_itself() -> None:
    world = World(namespace="acme")
    world.source.spaces |= {"acme": NamespaceSettings(), "b": NamespaceSettings()}
    access = world.credentials.verify(signed())
    assert world.credentials.within(access, "") is access
    assert world.credentials.within(access, "acme") is access
    with pytest.raises(Refusal):
        world.credentials.within(access, "b")


@pytest.mark.parametrize("mode", ["open", "auto"])
def test_where_nobody_is_asked_nothing_is_looked_at(mode: AuthMode) -> None:
    world = World(mode)
    world.source.keys.clear()
    assert world.credentials.verify({}) is OPEN_ACCESS
    assert world.credentials.verify(signed(secret="x")) is OPEN_ACCESS


def test_a_signing_secret_is_kept_out_of_logs() -> None:
    text = new_signing_secret(ID)
    assert signing_hint(text) == text[:16]
    assert text not in redact_text(f"secret key {text}, thanks")
    assert text not in repr(SigningSecret(text=text, created_at_ms=1))
