"""Users of an identity provider: tokens that count, and those that do not."""

import hmac
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from aiohttp import ClientSession, DummyCookieJar
from tests.integration.oidc_provider import FakeProvider, fake_provider

from halfpast_api.access.config import OidcConfig
from halfpast_api.access.oidc_errors import BadToken, ProviderUnavailable
from halfpast_api.access.oidc_provider import Provider
from halfpast_api.access.oidc_tokens import OidcTokens

pytestmark = pytest.mark.asyncio


class World:
    """A provider, who verifies its tokens, and their clocks."""

    def __init__(self, fake: FakeProvider, session: ClientSession) -> None:
        self.fake = fake
        self.session = session
        self.now_s = time.time()
        self.monotonic_s = 1000.0
        self.use()

    def use(self, **config: Any) -> None:
        settings = self.fake.config(**config)
        self.provider = Provider(settings, self.session, lambda: self.monotonic_s)
        self.tokens = OidcTokens(settings, self.provider, lambda: self.now_s)

    async def refused(self, token: str) -> str:
        with pytest.raises(BadToken) as raised:
            await self.tokens.access_of(token)
        assert token not in str(raised.value)
        return raised.value.reason


@pytest_asyncio.fixture
async def world() -> AsyncGenerator[World]:
    async with (
        fake_provider() as fake,
        ClientSession(cookie_jar=DummyCookieJar()) as session,
    ):
        fake.claims["groups"] = ["staff", "sre"]
        yield World(fake, session)


async def test_a_good_token(world: World) -> None:
    access = await world.tokens.access_of(world.fake.token())
    assert (access.actor, access.kind) == ("user:ann@example.org", "user")
    assert (access.role, access.namespace, access.is_suite) == ("admin", "", False)
    assert not access.may_view_payload
    for _ in range(50):
        await world.tokens.access_of(world.fake.token())
    assert world.fake.asked == 1


@pytest.mark.parametrize("kind", ["RSA", "EC"])
async def test_keys_roll_over(world: World, kind: str) -> None:
    await world.tokens.access_of(world.fake.token())
    world.fake.add_key("second", kind)
    world.monotonic_s += 31
    assert await world.tokens.access_of(world.fake.token("second"))
    assert world.fake.asked == 2


async def test_a_withdrawn_key_ends_what_it_signed(world: World) -> None:
    token = world.fake.token()
    await world.tokens.access_of(token)
    world.fake.keys = {}
    world.fake.add_key("second")
    world.now_s += 601
    world.monotonic_s += 601
    assert "keys has signed" in await world.refused(token)


async def test_made_up_key_ids_ask_the_provider_rarely(world: World) -> None:
    await world.tokens.access_of(world.fake.token())
    for number in range(50):
        header = {"kid": f"made-up-{number}"}
        assert "keys has signed" in await world.refused(world.fake.token(header=header))
    assert world.fake.asked == 1
    world.monotonic_s += 31
    for number in range(50, 100):
        await world.refused(world.fake.token(header={"kid": f"made-up-{number}"}))
    assert world.fake.asked == 2


async def test_a_token_without_a_key_id_is_tried_with_all(world: World) -> None:
    world.fake.add_key("second")
    assert await world.tokens.access_of(
        world.fake.token("second", header={"kid": None})
    )


@pytest.mark.parametrize(
    ("claims", "word"),
    [
        ({"iss": "https://evil.example"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": "another"}, "not for"),
        ({"aud": ["another", 5]}, "not for"),
        ({"aud": None}, "not for"),
        ({"exp": 1}, "expired"),
        ({"exp": None}, "expires"),
        ({"exp": "tomorrow"}, "expires"),
        ({"exp": True}, "expires"),
        ({"nbf": 2**40}, "future"),
        ({"iat": 2**40}, "future"),
        ({"groups": ["staff"]}, "no role"),
        ({"groups": None}, "no role"),
        ({"groups": {"sre": True}}, "no role"),
    ],
)
async def test_claims_that_do_not_count(
    world: World, claims: dict[str, Any], word: str
) -> None:
    assert word in await world.refused(world.fake.token(**claims))


async def test_clocks_may_differ_a_little(world: World) -> None:
    now = int(world.now_s)
    assert await world.tokens.access_of(world.fake.token(exp=now - 50))
    assert await world.tokens.access_of(world.fake.token(nbf=now + 50))
    assert "expired" in await world.refused(world.fake.token(exp=now - 61))


async def test_a_token_ends_though_it_was_good_before(world: World) -> None:
    token = world.fake.token(exp=int(world.now_s) + 10)
    await world.tokens.access_of(token)
    world.now_s += 69
    await world.tokens.access_of(token)
    world.now_s += 3
    assert "expired" in await world.refused(token)


def _unsigned(claims: dict[str, Any], **header: Any) -> str:
    parts = [
        urlsafe_b64encode(msgspec.json.encode(it)).rstrip(b"=")
        for it in (header, claims)
    ]
    return b".".join([*parts, b""]).decode()


async def test_signatures_that_do_not_count(world: World) -> None:
    fake = world.fake
    good = fake.token()
    claims = {"iss": fake.issuer, "aud": "halfpast", "exp": 2**33, "groups": ["sre"]}
    assert "'none'" in await world.refused(_unsigned(claims, alg="none", kid="first"))
    unsigned = _unsigned(claims, alg="HS256", kid="first")[:-1]
    public = fake.keys["first"].as_pem(private=False)  # as if it were a shared secret
    mac = hmac.digest(public, unsigned.encode(), "sha256")
    confused = f"{unsigned}.{urlsafe_b64encode(mac).rstrip(b'=').decode()}"
    assert "'HS256'" in await world.refused(confused)
    head, body, signature = good.split(".")
    for broken in (
        f"{head}.{body}.{signature[:-4]}AAAA",
        f"{head}.{body[:-4]}AAAA.{signature}",
        f"{head}.{body}.",
        f"{head}.{body}",
        f"{head}.{body}.{signature}.x.y",
        "a.b.c",
        "é.b.c",
        "." * 20_000,
    ):
        assert await world.refused(broken)
    other = FakeProvider()
    other.issuer, other.claims = fake.issuer, fake.claims
    assert "keys has signed" in await world.refused(other.token())
    assert "extensions" in await world.refused(
        fake.token(header={"crit": ["b64"], "b64": True})
    )


async def test_only_listed_algorithms(world: World) -> None:
    world.use(algorithms="ES256")
    assert "'RS256'" in await world.refused(world.fake.token())


async def test_what_was_found_is_remembered_within_bounds(world: World) -> None:
    settings = world.fake.config()
    tokens = OidcTokens(settings, world.provider, remembered_max=20)
    await tokens.access_of(world.fake.token())
    for number in range(50):
        with pytest.raises(BadToken):
            await tokens.access_of(f"a.{number}.c")
        assert tokens.remembered == min(number + 2, 20)


@pytest.mark.parametrize(
    ("config", "claims", "expected"),
    [
        ({}, {"groups": ["dev", "sre"]}, ("admin", "", False)),
        ({}, {"groups": "dev"}, ("read-only", "", False)),
        ({"roles": "*=read-only"}, {"groups": []}, ("read-only", "", False)),
        (
            {"role_claim": "realm.roles"},
            {"realm": {"roles": ["sre"]}},
            ("admin", "", False),
        ),
        ({"namespace_claim": "org"}, {"org": "acme"}, ("admin", "acme", False)),
        ({"namespace_claim": "org"}, {"org": "*"}, ("admin", "", True)),
        ({"namespace_claim": "org", "namespace": "x"}, {}, ("admin", "x", False)),
        ({"namespace": "*"}, {}, ("admin", "", True)),
    ],
)
async def test_claims_become_roles_and_namespaces(
    world: World,
    config: dict[str, Any],
    claims: dict[str, Any],
    expected: tuple[str, str, bool],
) -> None:
    world.use(**config)
    access = await world.tokens.access_of(world.fake.token(**claims))
    assert (access.role, access.namespace, access.is_suite) == expected


@pytest.mark.parametrize("org", ["a%b", "", 5, ["acme"]])
async def test_a_claim_that_is_no_namespace(world: World, org: Any) -> None:
    world.use(namespace_claim="org")
    token = world.fake.token(org=org)
    if org == "":
        assert (await world.tokens.access_of(token)).namespace == ""
    else:
        assert "no namespace" in await world.refused(token)


async def test_names_and_payload(world: World) -> None:
    world.use(payload_words="support, sre", name_claim="preferred")
    access = await world.tokens.access_of(
        world.fake.token(preferred="a\nb" + "x" * 200)
    )
    assert access.may_view_payload
    assert access.actor == "user:a?b" + "x" * 125
    assert (await world.tokens.access_of(world.fake.token())).actor == "user:ann"


async def test_a_provider_that_is_away(world: World) -> None:
    world.fake.broken = True
    for _ in range(5):
        with pytest.raises(ProviderUnavailable):
            await world.tokens.access_of(world.fake.token())
    world.fake.broken = False
    world.monotonic_s += 31
    await world.tokens.access_of(world.fake.token())
    world.fake.broken = True
    world.monotonic_s += 601
    assert await world.tokens.access_of(world.fake.token(jti="2"))  # by the old keys


async def test_a_provider_that_says_it_is_another(world: World) -> None:
    settings = world.fake.config(
        issuer=world.fake.issuer.replace("127.0.0.1", "localhost")
    )
    with pytest.raises(ProviderUnavailable, match="to the letter"):
        await Provider(settings, world.session).keys(None)


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "http://10.0.0.1/", "ftp://a", ""]
)
async def test_only_https_is_asked(world: World, url: str) -> None:
    with pytest.raises(ProviderUnavailable, match="https"):
        await world.provider.fetch("GET", url)


@pytest.mark.parametrize(
    "config",
    [
        {"issuer": "http://idp.example", "audience": "a"},
        {"issuer": "https://idp.example"},
        {"issuer": "https://idp.example", "audience": "a", "algorithms": "HS256"},
        {"issuer": "https://idp.example", "audience": "a", "algorithms": "none"},
        {"issuer": "https://idp.example", "audience": "a", "algorithms": ""},
        {"issuer": "https://idp.example", "audience": "a", "roles": "x=king"},
        {"issuer": "https://idp.example", "audience": "a", "roles": "x"},
    ],
)
async def test_a_configuration_that_cannot_be(config: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="oidc"):
        OidcConfig(**config)


async def test_its_secret_is_not_shown() -> None:
    assert "hush" not in repr(OidcConfig(client_secret="hush"))
