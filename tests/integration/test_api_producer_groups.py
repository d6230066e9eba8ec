"""Producer groups over HTTP: their settings, their secrets, and every bad input."""

import sqlite3
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp.test_utils import make_mocked_request
from tests.integration.api_server import Api, Reply, serve
from tests.integration.api_stub import StubServices

from halfpast_api.call import Call
from halfpast_api.config import ApiConfig
from halfpast_api.metadata.errors import StaleVersion
from halfpast_api.metadata.settings import ProducerGroupSettings
from halfpast_api.metadata.store import MetadataStore
from halfpast_api.transactions.producer_groups import ProducerGroupHandlers
from halfpast_txn.address_rules import AllowList

pytestmark = pytest.mark.asyncio
GROUPS = "/v1/producer-groups"
SHOP = f"{GROUPS}/shop"
URL = "https://shop.example/checks"
DEFAULTS = {
    "name": "shop",
    "check_secrets": 0,
    "check_after_ms": 6_000,
    "check_interval_ms": 30_000,
    "check_max": 15,
    "check_timeout_ms": 5_000,
    "check_concurrency_max": 8,
    "description": "",
}
MOMENTS = {"created_at", "updated_at"}


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    services = StubServices()
    config = ApiConfig(port=0, check_allow="127.0.0.1:9000, hooks.internal")
    async with serve(*services.all, tmp_path, config) as api:
        yield api


def secret_of(letter: bytes, size: int = 24) -> str:
    return "whsec_" + b64encode(letter * size).decode()


def settings_of(reply: Reply) -> dict[str, Any]:
    assert reply.status in (200, 201), reply
    return {key: value for key, value in reply.body.items() if key not in MOMENTS}


async def put(api: Api, body: object = None, **options: Any) -> Reply:
    """PUT a group that must be taken."""
    reply = await api.put(SHOP, {} if body is None else body, **options)
    assert reply.status in (200, 201), reply
    return reply


# --- the life of a group --------------------------------------------------------


async def test_a_group_is_made_read_changed_and_deleted(api: Api) -> None:
    made = await put(api)
    assert (made.status, made.headers["ETag"]) == (201, '"1"')
    assert made.headers["Location"] == SHOP
    assert settings_of(made) == DEFAULTS | {"version": 1}
    assert set(made.body) >= MOMENTS
    read = await api.get(SHOP)
    assert (read.status, read.headers["ETag"]) == (200, '"1"')
    assert read.body == made.body

    given = {
        "check_url": URL,
        "check_secrets": [secret_of(b"n"), secret_of(b"o", 64)],
        "check_after_ms": 0,
        "check_interval_ms": 100,
        "check_max": 1,
        "check_timeout_ms": 100,
        "check_concurrency_max": 1,
        "description": "Aufträge",
    }
    changed = await put(api, given)
    assert (changed.status, changed.headers["ETag"]) == (200, '"2"')
    assert settings_of(changed) == given | {
        "name": "shop",
        "check_secrets": 2,
        "version": 2,
    }
    assert settings_of(await api.get(SHOP)) == settings_of(changed)
    again = await put(api, given)
    assert again.content == changed.content

    deleted = await api.delete(SHOP)
    assert deleted.status == 200
    assert deleted.body == {"name": "shop", "outcome": "deleted"}
    for method in ("GET", "DELETE"):
        gone = await api.call(method, SHOP)
        assert (gone.status, gone.code) == (404, "unknown_producer_group")
        assert f"PUT {SHOP}" in gone.body["detail"]


async def test_what_is_left_out_gets_its_default(api: Api) -> None:
    await put(api, {"check_max": 3, "description": "x", "check_url": URL})
    reply = await put(api, {"check_after_ms": 1})
    assert settings_of(reply) == DEFAULTS | {"check_after_ms": 1, "version": 2}


async def test_the_largest_values(api: Api) -> None:
    largest = {
        "check_after_ms": 604_800_000,
        "check_interval_ms": 86_400_000,
        "check_max": 1000,
        "check_timeout_ms": 30_000,
        "check_concurrency_max": 100,
        "description": "x" * 1000,
    }
    reply = await put(api, largest)
    assert settings_of(reply) == DEFAULTS | largest | {"version": 1}


async def test_groups_are_listed_in_pages(api: Api) -> None:
    for name in ("b", "B", "a-1", "b_c"):
        assert (await api.put(f"{GROUPS}/{name}", {})).status == 201
    await api.put(f"{GROUPS}/gone", {})
    await api.delete(f"{GROUPS}/gone")
    names: list[str] = []
    target = f"{GROUPS}?limit=2"
    tokens: list[str | None] = []
    for _ in range(2):
        page = (await api.get(target)).body
        assert len(page["producer_groups"]) == 2
        names += [group["name"] for group in page["producer_groups"]]
        tokens.append(page["next_page_token"])
        target = f"{GROUPS}?limit=2&page_token={tokens[-1]}"
    assert tokens[0]
    assert tokens[1] is None
    assert names == ["B", "a-1", "b", "b_c"]
    whole = (await api.get(GROUPS)).body["producer_groups"]
    assert whole[2] == (await api.get(f"{GROUPS}/b")).body


async def test_messagepack_is_understood(api: Api) -> None:
    body = b"\x81\xa9check_url\xb0https://a.b/c?d="
    headers = {"Content-Type": "application/msgpack"}
    reply = await put(api, body, headers=headers)
    assert reply.headers["Content-Type"] == "application/msgpack"
    assert reply.body["check_url"] == "https://a.b/c?d="


# --- secrets --------------------------------------------------------------------


async def test_a_secret_is_made_and_shown_once(api: Api) -> None:
    made = await put(api, {"check_url": URL})
    (secret,) = made.body["check_secrets"]
    assert secret.startswith("whsec_")
    key = b64decode(secret.removeprefix("whsec_"), validate=True)
    assert 24 <= len(key) <= 32
    for target in (SHOP, GROUPS):
        assert b"whsec_" not in (await api.get(target)).content
    assert (await api.get(SHOP)).body["check_secrets"] == 1
    other = await api.put(f"{GROUPS}/bank", {"check_url": URL})
    assert other.body["check_secrets"] != [secret]


async def test_a_secret_stays_while_the_rest_changes(api: Api, tmp_path: Path) -> None:
    (secret,) = (await put(api, {"check_url": URL})).body["check_secrets"]
    changed = await put(api, {"check_url": URL + "2", "check_max": 3})
    assert changed.body["check_secrets"] == 1
    assert changed.body["check_max"] == 3
    assert (await put(api, {"check_url": URL + "2", "check_max": 3})).body == (
        changed.body
    )
    assert stored(tmp_path) == [secret]


async def test_a_given_secret_is_kept_and_not_shown(api: Api, tmp_path: Path) -> None:
    await put(api, {"check_url": URL})
    new, old = secret_of(b"n"), secret_of(b"o")
    reply = await put(api, {"check_url": URL, "check_secrets": [new, old]})
    assert reply.body["check_secrets"] == 2
    assert b"whsec_" not in reply.content
    assert stored(tmp_path) == [f"{new} {old}"]
    await put(api, {"check_url": URL, "check_secrets": [new]})
    assert stored(tmp_path) == [new]


async def test_without_a_url_there_is_no_secret(api: Api, tmp_path: Path) -> None:
    (first,) = (await put(api, {"check_url": URL})).body["check_secrets"]
    assert (await put(api, {})).body["check_secrets"] == 0
    assert stored(tmp_path) == [""]
    (second,) = (await put(api, {"check_url": URL})).body["check_secrets"]
    assert second != first
    await api.delete(SHOP)
    assert stored(tmp_path) == [""]
    (third,) = (await put(api, {"check_url": URL})).body["check_secrets"]
    assert third != second


def stored(folder: Path) -> list[str]:
    """The secrets in the database, those of deleted groups as well."""
    with closing(sqlite3.connect(folder / "metadata.sqlite")) as connection:
        found = connection.execute("SELECT check_secrets FROM halfpast_producer_groups")
        return [text for (text,) in found]


# --- versions -------------------------------------------------------------------


async def test_a_stale_version_is_refused(api: Api) -> None:
    body = {"check_url": URL}
    seen = {"If-Match": '"1"'}
    reply = await api.put(SHOP, body, headers=seen)
    assert (reply.status, reply.code) == (412, "stale_version")
    assert (await api.get(SHOP)).status == 404
    create = {"If-None-Match": "*"}
    assert (await api.put(SHOP, body, headers=create)).status == 201
    assert (await api.put(SHOP, body, headers=create)).status == 412
    assert (await api.put(SHOP, {"check_max": 3}, headers=seen)).status == 200
    for reply in (
        await api.put(SHOP, body, headers=seen),
        await api.put(SHOP, {}, headers=seen),
        await api.delete(SHOP, headers=seen),
    ):
        assert (reply.status, reply.code) == (412, "stale_version")
    assert (await api.delete(SHOP, headers={"If-Match": '"2"'})).status == 200
    assert (await api.delete(SHOP, headers={"If-Match": '"2"'})).status == 412


async def test_a_secret_given_meanwhile_is_not_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would know that the one just made is not the one that signs."""
    async with open_store(tmp_path) as store:
        read = store.producer_group
        given = ProducerGroupSettings(check_secrets=(secret_of(b"o"),))

        async def read_before_it_is_given(name: str) -> object:
            entry = await read(name)
            await store.put_producer_group(name, given)
            return entry

        monkeypatch.setattr(store, "producer_group", read_before_it_is_given)
        handlers = ProducerGroupHandlers(store, AllowList())
        with pytest.raises(StaleVersion):
            await handlers.put(call_of(b'{"check_url": "https://shop.example"}'))
        assert stored(tmp_path) == [secret_of(b"o")]
        entry = await read("shop")
        assert entry is not None
        assert entry.settings == given


async def test_secrets_are_made_of_the_chance_that_is_given(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        handlers = ProducerGroupHandlers(store, AllowList(), lambda size: b"x" * size)
        answer = await handlers.put(call_of(b'{"check_url": "https://shop.example"}'))
        assert secret_of(b"x", 32).encode() in answer.content
        assert stored(tmp_path) == [secret_of(b"x", 32)]


def call_of(body: bytes) -> Call:
    headers = {"Content-Type": "application/json"}
    return Call(make_mocked_request("PUT", SHOP, headers=headers), ["shop"], body)


@asynccontextmanager
async def open_store(folder: Path) -> AsyncGenerator[MetadataStore]:
    store = await MetadataStore.open(f"sqlite:///{folder}/metadata.sqlite")
    yield store
    await store.close()


# --- bad input ------------------------------------------------------------------


async def refused(api: Api, body: object, **options: Any) -> Reply:
    """A PUT that must be refused, and leaves nothing behind."""
    reply = await api.put(SHOP, body, **options)
    assert 400 <= reply.status < 500, reply
    assert reply.code
    assert b"hush" not in reply.content
    assert (await api.get(SHOP)).status == 404
    assert (await api.get(GROUPS)).body["producer_groups"] == []
    return reply


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("a.b", "invalid_producer_group"),
        ("a%2Fb", "invalid_producer_group"),
        ("a%20b", "invalid_producer_group"),
        ("%C3%A9", "invalid_producer_group"),
        ("a" * 128, "invalid_producer_group"),
        ("", "invalid_producer_group"),
        ("SYS_x", "reserved_group"),
        ("TRANS_x", "reserved_group"),
        ("%25x", "reserved_group"),
    ],
)
async def test_bad_names(api: Api, name: str, code: str) -> None:
    for method in ("GET", "PUT", "DELETE"):
        body = b"{}" if method == "PUT" else None
        reply = await api.call(method, f"{GROUPS}/{name}", body)
        assert (reply.status, reply.code) == (422, code)


async def test_the_longest_name(api: Api) -> None:
    target = f"{GROUPS}/{'a' * 127}"
    assert (await api.put(target, {})).status == 201
    assert (await api.get(target)).status == 200


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        ({"check_uri": URL}, "unknown_field", "/check_uri"),
        ({"name": "shop"}, "unknown_field", "/name"),
        ({"version": 1}, "unknown_field", "/version"),
        ({"check_url": 5}, "invalid_request", "/check_url"),
        ({"check_url": [URL]}, "invalid_request", "/check_url"),
        ({"check_secrets": "whsec_hush"}, "invalid_request", "/check_secrets"),
        ({"check_secrets": [5]}, "invalid_request", "/check_secrets"),
        ({"check_max": "5"}, "invalid_request", "/check_max"),
        ({"check_max": 1.5}, "invalid_request", "/check_max"),
        ({"check_max": True}, "invalid_request", "/check_max"),
        ({"description": 5}, "invalid_request", "/description"),
        ([], "invalid_request", ""),
    ],
)
async def test_wrong_fields_and_types(
    api: Api, body: object, code: str, pointer: str
) -> None:
    reply = await refused(api, body)
    assert (reply.status, reply.code) == (422, code)
    assert reply.pointers[0].startswith(pointer)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("check_after_ms", [-1, 604_800_001, 2**63, 10**40]),
        ("check_interval_ms", [0, 99, 86_400_001]),
        ("check_max", [-1, 0, 1001]),
        ("check_timeout_ms", [0, 99, 30_001]),
        ("check_concurrency_max", [0, 101]),
        ("description", ["x" * 1001, "\0"]),
    ],
)
async def test_values_out_of_range(api: Api, field: str, values: list[Any]) -> None:
    for value in values:
        reply = await refused(api, {"check_url": URL, field: value})
        assert (reply.status, reply.code) == (422, "invalid_settings")
        assert reply.pointers == [f"/{field}"]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "shop.example",
        "ftp://shop.example",
        "https://me:hush@shop.example",
        "https://shop.example#x",
        "https://shop.example:0",
        "https://shop.example/\r\nhush: x",
        "https://bücher.example",
        "http://127.1",
        "http://[::1",
        "https://a/" + "a" * 2000,
    ],
)
async def test_what_is_no_url(api: Api, url: str) -> None:
    reply = await refused(api, {"check_url": url})
    assert (reply.status, reply.code) == (422, "invalid_endpoint")
    assert reply.pointers == ["/check_url"]


@pytest.mark.parametrize(
    "host",
    [
        "localhost:9001",
        "127.0.0.1",
        "127.0.0.1:9001",
        "127.0.0.2:9000",
        "10.0.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "[::1]:9001",
        "[::ffff:10.0.0.1]",
        "[fe80::1]",
        "[fd00:ec2::254]",
    ],
)
async def test_addresses_that_are_not_public(api: Api, host: str) -> None:
    reply = await refused(api, {"check_url": f"http://{host}/checks"})
    assert (reply.status, reply.code) == (422, "forbidden_endpoint")
    assert reply.pointers == ["/check_url"]
    assert "HALFPAST_CHECK_ALLOW" in reply.body["detail"]
    assert "--check-allow" in reply.body["detail"]


async def test_addresses_that_an_operator_allows(api: Api) -> None:
    for host in ("127.0.0.1:9000", "localhost:9000", "hooks.internal:81"):
        reply = await put(api, {"check_url": f"http://{host}/checks"})
        assert reply.body["check_url"] == f"http://{host}/checks"


@pytest.mark.parametrize(
    ("secrets", "pointer"),
    [
        ([], "/check_secrets"),
        ([secret_of(b"a"), secret_of(b"b"), secret_of(b"c")], "/check_secrets"),
        (["hush"], "/check_secrets/0"),
        (["whsec_hush"], "/check_secrets/0"),
        ([secret_of(b"a"), secret_of(b"a")], "/check_secrets/1"),
        ([secret_of(b"a"), secret_of(b"a", 23)], "/check_secrets/1"),
        ([secret_of(b"a", 65)], "/check_secrets/0"),
        ([secret_of(b"a") + "\n"], "/check_secrets/0"),
        (["whsk_" + secret_of(b"a")], "/check_secrets/0"),
    ],
)
async def test_what_cannot_be_a_secret(
    api: Api, secrets: list[str], pointer: str
) -> None:
    reply = await refused(api, {"check_url": URL, "check_secrets": secrets})
    assert (reply.status, reply.code) == (422, "invalid_secret")
    assert reply.pointers == [pointer]
    assert not any(it and it.encode() in reply.content for it in secrets if len(it) > 9)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "malformed_json"),
        (b"{", 400, "malformed_json"),
        (b'{"description": "\xff"}', 400, "malformed_json"),
        (b'{"check_max": 1, "check_max": 2}', 422, "duplicate_key"),
        (b'{"check_secrets": ' + b"[" * 99 + b"]" * 99 + b"}", 422, "invalid_request"),
        (b'{"description": "' + b"x" * 70_000 + b'"}', 413, "body_too_large"),
    ],
)
async def test_bad_bodies(api: Api, body: bytes, status: int, code: str) -> None:
    headers = {"Content-Type": "application/json"}
    reply = await refused(api, body, headers=headers)
    assert (reply.status, reply.code) == (status, code)


@pytest.mark.parametrize(
    "headers", [{"If-Match": '"x"'}, {"If-Match": "W/"}, {"If-None-Match": '"1"'}]
)
async def test_bad_versions(api: Api, headers: dict[str, str]) -> None:
    reply = await refused(api, {}, headers=headers)
    assert (reply.status, reply.code) == (422, "invalid_version")
    if "If-Match" in headers:
        deleted = await api.delete(SHOP, headers=headers)
        assert deleted.code == "invalid_version"


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("limit=0", "invalid_parameter"),
        ("limit=1001", "invalid_parameter"),
        ("limit=x", "invalid_parameter"),
        ("page=2", "invalid_parameter"),
        ("page_token=!", "invalid_page_token"),
    ],
)
async def test_bad_queries(api: Api, query: str, code: str) -> None:
    reply = await api.get(f"{GROUPS}?{query}")
    assert (reply.status, reply.code) == (422, code)


async def test_other_methods(api: Api) -> None:
    for target, allowed in ((GROUPS, "GET"), (SHOP, "DELETE, GET, PUT")):
        reply = await api.patch(target, {})
        assert (reply.status, reply.code) == (405, "method_not_allowed")
        assert reply.headers["Allow"] == allowed


async def test_an_absent_database_is_told(api: Api, tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    away = path.rename(tmp_path / "away.sqlite")
    for method in ("GET", "PUT", "DELETE"):
        body = {"check_url": URL} if method == "PUT" else None
        reply = await api.call(method, SHOP, body)
        assert (reply.status, reply.code) == (503, "metadata_unavailable")
    away.rename(path)


@pytest.mark.parametrize("text", ["10.0.0.0/33", "a b", "127.1", "a:99999"])
async def test_a_mistake_in_what_is_allowed_shows_at_the_start(text: str) -> None:
    with pytest.raises(ValueError, match="check_allow: "):
        ApiConfig(check_allow=text)
