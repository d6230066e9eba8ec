"""Keys, namespaces and acts as the API shows them, as far as pages need it."""

from typing import Any

import msgspec


class Secret(msgspec.Struct):
    """A secret of a key, by how it begins."""

    prefix: str
    created_at: str
    expires_at: str | None = None


class Key(msgspec.Struct, kw_only=True):
    """`secret`, `signing_secret`: new ones, in the one answer that shows them."""

    id: str
    description: str = ""
    namespace: str = ""
    all_namespaces: bool = False
    role: str = ""
    scopes: list[str] = []
    view_payload: bool = False
    state: str = "live"
    secrets: list[Secret] = []
    signing_secrets: list[Secret] = []
    created_at: str = ""
    created_by: str = ""
    expires_at: str | None = None
    revoked_at: str | None = None
    last_used_at: str | None = None
    version: int = 0
    secret: str = ""
    signing_secret: str = ""

    @property
    def rights(self) -> str:
        """What it may do, in few words."""
        return self.role or ", ".join(self.scopes) or "nothing"


class KeyPage(msgspec.Struct):
    keys: list[Key]
    next_page_token: str | None = None


class Namespace(msgspec.Struct):
    """A tenant."""

    name: str
    description: str = ""
    suspended: bool = False
    version: int = 0
    created_at: str | None = None
    updated_at: str | None = None


class NamespacePage(msgspec.Struct):
    namespaces: list[Namespace]
    next_page_token: str | None = None


class Act(msgspec.Struct, kw_only=True):
    """Something that somebody did."""

    id: str
    at: str
    actor: str
    namespace: str = ""
    action: str
    object: str = ""
    request_id: str = ""
    status: int = 0
    before: Any = None
    after: Any = None

    @property
    def details(self) -> list[tuple[str, str]]:
        """What it was, and what it became, laid out."""
        found: list[tuple[str, str]] = []
        for name, value in (("before", self.before), ("after", self.after)):
            if value is not None:
                text = msgspec.json.format(msgspec.json.encode(value), indent=2)
                found.append((name, text.decode()))
        return found


class Trail(msgspec.Struct):
    entries: list[Act]
    next_page_token: str | None = None


class Who(msgspec.Struct, kw_only=True):
    """Who one is."""

    actor: str
    kind: str
    role: str = ""
    namespace: str = ""
    all_namespaces: bool = False
    scopes: list[str] = []
    view_payload: bool = False
    key_id: str = ""
    mode: str = "keys"
