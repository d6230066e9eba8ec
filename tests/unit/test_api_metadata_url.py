"""Which databases may be named, and that passwords are not shown."""

import os

import pytest

from halfpast_api.metadata.database import parse_url, show
from halfpast_api.metadata.errors import UnsupportedUrl
from halfpast_api.metadata.store import MetadataStore, StoreConfig


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:secret@db.example/halfpast",
        "postgres://me:secret@db.example/halfpast",
        "postgresql+psycopg://me:secret@db.example/halfpast",
    ],
)
def test_postgresql_is_spoken_through_psycopg(text: str) -> None:
    url = parse_url(text)
    assert url.drivername == "postgresql+psycopg"
    assert (url.username, url.password) == ("me", "secret")
    assert (url.host, url.database) == ("db.example", "halfpast")


def test_a_relative_sqlite_path_is_fixed_at_once() -> None:
    expected = os.path.join(os.getcwd(), "data/metadata.sqlite")
    assert parse_url("sqlite:///data/metadata.sqlite").database == expected
    assert parse_url("sqlite:////data/metadata.sqlite").database == (
        "/data/metadata.sqlite"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "metadata.sqlite",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///a?mode=ro",
        "mysql://me:secret@db.example/halfpast",
        "postgresql+asyncpg://me:secret@db.example/halfpast",
        "postgresql://me:secret@db.example:port/halfpast",
    ],
)
def test_other_databases_are_refused_without_their_password(text: str) -> None:
    with pytest.raises(UnsupportedUrl) as error:
        parse_url(text)
    assert "secret" not in str(error.value)
    assert "sqlite:///path" in str(error.value)


def test_passwords_are_not_shown() -> None:
    text = "postgresql://me:secret1@/db?host=a&password=secret2&sslpassword=secret3"
    shown = show(parse_url(text))
    assert "secret" not in shown
    assert "host=a" in shown


def test_the_source_of_a_snapshot_names_nobody() -> None:
    url = parse_url("postgresql://me:secret@db.example/halfpast")
    store = MetadataStore(url, StoreConfig(), lambda: 0)
    assert store.source == "postgresql+psycopg://db.example/halfpast"
