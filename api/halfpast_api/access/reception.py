"""All that decides who comes in, put together and taken apart again."""

from contextlib import AsyncExitStack
from dataclasses import dataclass

from aiohttp import ClientSession, DummyCookieJar

from halfpast_api.access.access_routes import AccessHandlers
from halfpast_api.access.acts import Acts
from halfpast_api.access.door import Door
from halfpast_api.access.key_handlers import KeyHandlers
from halfpast_api.access.key_ring import KeyRing
from halfpast_api.access.key_store import KeyStore
from halfpast_api.access.namespace_handlers import NamespaceHandlers
from halfpast_api.access.namespace_use import NamespaceUse
from halfpast_api.access.oidc_login import OidcLogin
from halfpast_api.access.oidc_provider import Provider
from halfpast_api.access.oidc_tokens import OidcTokens
from halfpast_api.access.session_handlers import SessionHandlers
from halfpast_api.access.sessions import Sessions
from halfpast_api.access.site_guard import SiteGuard, is_loopback
from halfpast_api.access.trail import Trail
from halfpast_api.access.trail_handlers import TrailHandlers
from halfpast_api.access.upkeep import Upkeep
from halfpast_api.config import ApiConfig
from halfpast_api.limits.limit_store import LimitStore
from halfpast_api.metadata.cache import MetadataCache
from halfpast_api.metadata.store import MetadataStore, StoreConfig
from halfpast_core_store.broker import Broker
from halfpast_txn.transactions import Transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class Reception:
    """What the server and its routes need of it."""

    door: Door
    ring: KeyRing
    acts: Acts
    handlers: AccessHandlers


async def open_reception(
    stack: AsyncExitStack,
    broker: Broker,
    transactions: Transactions,
    metadata: MetadataStore,
    cache: MetadataCache,
    config: ApiConfig,
) -> Reception:
    """Raises OidcMissing. What it opens is closed with the stack."""
    # Cookies that mean nothing are looked up too: not in the way of administration.
    aside = metadata.beside(StoreConfig())
    stack.push_async_callback(aside.close)
    ring = KeyRing(cache)
    keys = KeyStore(metadata)
    trail = Trail(metadata, config.trail)
    sessions = Sessions(aside, ring, config.sessions)
    tokens, login = await _open_oidc(stack, config)
    guard = SiteGuard(
        [*config.allowed_hosts.split(","), config.host],
        loopback=is_loopback(config.host),
    )
    door = Door(config.auth, cache, ring, sessions, guard, tokens)
    upkeep = Upkeep(ring, keys, sessions, trail)
    upkeep.start()
    stack.push_async_callback(upkeep.stop)
    use = NamespaceUse(broker, transactions, metadata, keys)
    handlers = AccessHandlers(
        keys=KeyHandlers(keys),
        namespaces=NamespaceHandlers(keys, use, LimitStore(metadata)),
        trail=TrailHandlers(trail, door),
        sessions=SessionHandlers(door, ring, sessions, trail, login),
    )
    return Reception(door=door, ring=ring, acts=Acts(trail), handlers=handlers)


async def _open_oidc(
    stack: AsyncExitStack, config: ApiConfig
) -> tuple[OidcTokens | None, OidcLogin | None]:
    oidc = config.oidc
    if not oidc.issuer:
        return None, None
    session = await stack.enter_async_context(
        ClientSession(cookie_jar=DummyCookieJar())
    )
    provider = Provider(oidc, session)
    tokens = OidcTokens(oidc, provider)
    login = OidcLogin(oidc, provider, tokens) if oidc.client_id else None
    return tokens, login
