"""Secrets of check-backs: what Standard Webhooks takes, and nothing else."""

from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.metadata.settings import ProducerGroupSettings, check
from halfpast_api.problems import Refusal
from halfpast_api.transactions.check_secrets import check_secrets, new_secret


def secret_of(size: int) -> str:
    return "whsec_" + b64encode((b"hush\xff\xfe" * 20)[:size]).decode()


def refused(*secrets: str) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        check_secrets(secrets)
    assert refusal.value.code == "invalid_secret"
    assert "aHVz" not in str(refusal.value)
    return refusal.value


def test_a_new_secret_is_what_chance_gave() -> None:
    asked: list[int] = []

    def random_bytes(count: int) -> bytes:
        asked.append(count)
        return bytes(range(count))

    secret = new_secret(random_bytes)
    (count,) = asked
    assert 24 <= count <= 32
    assert b64decode(secret.removeprefix("whsec_"), validate=True) == bytes(
        range(count)
    )
    check_secrets([secret])


@given(st.binary(min_size=24, max_size=64), st.binary(min_size=24, max_size=64))
def test_every_key_of_the_right_size_is_taken_and_fits_the_settings(
    new: bytes, old: bytes
) -> None:
    secrets = [f"whsec_{b64encode(key).decode()}" for key in {new, old}]
    check_secrets(secrets)
    check(ProducerGroupSettings(check_secrets=tuple(secrets)))


@pytest.mark.parametrize("size", [0, 1, 23, 65, 75])
def test_a_key_of_another_size_is_refused(size: int) -> None:
    refusal = refused(secret_of(24), secret_of(size))
    assert f"this one has {size}" in refusal.detail
    assert [error.pointer for error in refusal.errors] == ["/check_secrets/1"]


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec",
        secret_of(24).removeprefix("whsec_"),
        secret_of(24).replace("whsec_", "WHSEC_"),
        secret_of(24).replace("whsec_", "whsk_"),
        " " + secret_of(24),
    ],
)
def test_the_prefix_must_be_there(secret: str) -> None:
    assert "a secret is whsec_ and" in refused(secret).detail


@pytest.mark.parametrize(
    "secret",
    [
        secret_of(25).rstrip("="),
        secret_of(25) + "=",
        secret_of(24) + "\n",
        secret_of(24)[:-1] + "ä",
        secret_of(24)[:-4] + "-_-_",
        secret_of(24)[:-1],
        secret_of(25).replace("A==", "B==").replace("g==", "h=="),  # bits left over
    ],
)
def test_it_must_be_base64_as_it_is_written(secret: str) -> None:
    assert "base64" in refused(secret).detail


def test_one_or_two_different_ones() -> None:
    check_secrets([secret_of(24)])
    check_secrets([secret_of(24), secret_of(25)])
    for secrets in ([], [secret_of(size) for size in (24, 25, 26)]):
        refusal = refused(*secrets)
        assert [error.pointer for error in refusal.errors] == ["/check_secrets"]
        assert "1 to 2" in refusal.detail
    assert "twice" in refused(secret_of(24), secret_of(24)).detail
