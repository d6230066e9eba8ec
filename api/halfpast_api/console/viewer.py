"""Who looks at the console, and what they may do there."""

from dataclasses import dataclass

from halfpast_api.access.access import Access
from halfpast_api.access.verbs import Verb


@dataclass(frozen=True, slots=True)
class Viewer:
    """Somebody who has logged in, or anybody where the server is open. `is_shared`:
    there are namespaces that do not concern them."""

    access: Access
    is_shared: bool = False

    @property
    def token(self) -> str:
        """What forms bring back, so that they are known to come from our pages."""
        session = self.access.session
        return "" if session is None else session.csrf_token

    @property
    def actor(self) -> str:
        return self.access.actor

    @property
    def name(self) -> str:
        """The same, short: `ann@example.org`, `key k3x9q2mv`."""
        kind, _, name = self.access.actor.partition(":")
        return f"{kind} {name}" if kind == "key" else name or kind

    @property
    def role(self) -> str:
        return self.access.role or "own scopes"

    @property
    def namespace(self) -> str:
        return self.access.namespace

    @property
    def is_open(self) -> bool:
        """Whether nobody is asked who they are."""
        return self.access.kind == "anonymous"

    @property
    def may_view_payload(self) -> bool:
        return self.access.may_view_payload

    @property
    def sees_server(self) -> bool:
        """Whether figures of the whole server may be shown, of all namespaces."""
        access = self.access
        is_all = access.is_suite or not self.is_shared
        return is_all and not access.namespace and access.allows(Verb.READ)

    def can(self, verb: str, topic: str | None = None) -> bool:
        """Whether to offer what needs this right, for a topic or for any at all. The
        API decides again when it is asked to do it."""
        wanted = Verb(verb)
        if topic is None:
            return self.access.allows_some(wanted)
        return self.access.allows(wanted, topic)
