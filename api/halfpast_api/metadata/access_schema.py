"""The tables of access: keys, namespaces, sessions, and the trail."""

import dataclasses
import json
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, String, Table, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from halfpast_api.metadata.access_settings import KeySecret, SigningSecret
from halfpast_api.metadata.schema import PREFIX, Words, metadata, name_type, record

R = TypeVar("R", KeySecret, SigningSecret)


class Secrets(TypeDecorator[tuple[KeySecret, ...]]):
    """The secrets of a key as one JSON text; what is not known is skipped."""

    impl = Text
    cache_ok = True

    def process_bind_param(
        self, value: tuple[KeySecret, ...] | None, dialect: Dialect
    ) -> str | None:
        return _text_of(value)

    def process_result_value(
        self, value: str | None, dialect: Dialect
    ) -> tuple[KeySecret, ...] | None:
        return None if value is None else _read(value, KeySecret)


class SigningSecrets(TypeDecorator[tuple[SigningSecret, ...]]):
    """The same for its signing secrets."""

    impl = Text
    cache_ok = True

    def process_bind_param(
        self, value: tuple[SigningSecret, ...] | None, dialect: Dialect
    ) -> str | None:
        return _text_of(value)

    def process_result_value(
        self, value: str | None, dialect: Dialect
    ) -> tuple[SigningSecret, ...] | None:
        return None if value is None else _read(value, SigningSecret)


def _text_of(secrets: tuple[Any, ...] | None) -> str | None:
    if secrets is None:
        return None
    return json.dumps([dataclasses.asdict(it) for it in secrets])


def _read(text: str, kind: type[R]) -> tuple[R, ...]:
    known = {it.name for it in dataclasses.fields(kind)}
    return tuple(
        kind(**{name: one[name] for name in one if name in known})
        for one in json.loads(text)
    )


# `last_used_ms` is written beside the settings, without a new version.
keys = Table(
    f"{PREFIX}keys",
    metadata,
    Column("id", name_type(32), primary_key=True),
    Column("namespace", name_type(64), nullable=False),
    Column("all_namespaces", Boolean, nullable=False),
    Column("role", String(16), nullable=False),
    Column("scopes", Words, nullable=False),
    Column("view_payload", Boolean, nullable=False),
    Column("description", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("expires_at_ms", BigInteger, nullable=False),
    Column("revoked_at_ms", BigInteger, nullable=False),
    Column("secrets", Secrets, nullable=False),
    *record(),
    Column("last_used_ms", BigInteger, nullable=False, server_default="0"),
    Column("signing_secrets", SigningSecrets, nullable=False, server_default="[]"),
)

namespaces = Table(
    f"{PREFIX}namespaces",
    metadata,
    Column("name", name_type(64), primary_key=True),
    Column("description", Text, nullable=False),
    Column("suspended", Boolean, nullable=False),
    *record(),
)

# `id` is a digest. A session of a key has `key_id`, and what that key may do at the
# moment; one of a user has what the provider said when they came.
sessions = Table(
    f"{PREFIX}sessions",
    metadata,
    Column("id", name_type(64), primary_key=True),
    Column("key_id", name_type(32), nullable=False, index=True),
    Column("actor", Text, nullable=False),
    Column("role", String(16), nullable=False),
    Column("namespace", name_type(64), nullable=False),
    Column("all_namespaces", Boolean, nullable=False),
    Column("view_payload", Boolean, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("seen_at_ms", BigInteger, nullable=False, index=True),
    Column("expires_at_ms", BigInteger, nullable=False),
)

trail = Table(
    f"{PREFIX}trail",
    metadata,
    Column("id", name_type(36), primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("namespace", name_type(64), nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("object", Text, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
    *(
        Index(f"ix_{PREFIX}trail_{name}_id", name, "id")
        for name in ("namespace", "actor", "object")
    ),
)
