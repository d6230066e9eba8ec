"""What one caller may do: handed to every handler as `call.access`."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from halfpast_api.access.scope import ALL, Scope, Scopes
from halfpast_api.access.verbs import Reach, Verb
from halfpast_api.problems import Refusal

if TYPE_CHECKING:
    from halfpast_api.access.session import Session

ActorKind = Literal["anonymous", "key", "user"]

EVERYTHING: Final = Scopes(Scope(verb) for verb in Verb if verb is not Verb.OPEN)
NOTHING: Final = Scopes(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who calls, where, and what is allowed.

    `namespace` is where names are looked for, empty for the default one; `is_suite`
    says that the caller may choose any, and may do what is about all of them.
    `actor` is for people and the trail: `key:k3x9q2mv`, `user:ann@example.org` or
    `anonymous`. `key_id` is empty for users who came by OIDC; limits count by it, or
    else by `actor`. `session` is there for calls of the console.
    """

    namespace: str = ""
    actor: str = "anonymous"
    kind: ActorKind = "anonymous"
    role: str = ""
    key_id: str = ""
    scopes: Scopes = NOTHING
    may_view_payload: bool = False
    is_suite: bool = False
    session: "Session | None" = field(default=None, compare=False)

    def allows(self, verb: Verb, topic: str | None = None) -> bool:
        """Whether the verb is allowed for the topic; for all topics without one."""
        return self.scopes.allow(verb, topic)

    def allows_some(self, verb: Verb) -> bool:
        """Whether the verb is allowed for any topic at all."""
        return self.scopes.allow_some(verb)

    def check(self, verb: Verb, topic: str | None = None) -> None:
        """Raise Refusal unless it is allowed."""
        if not self.scopes.allow(verb, topic):
            raise self.refusal(verb, topic)

    def check_reach(self, verb: Verb, reach: Reach, topic: str | None) -> None:
        """Raise Refusal unless a route of this verb and reach may be called."""
        if reach is Reach.CALLER:
            return
        if reach is Reach.CHECKED:
            allowed = self.scopes.allow_some(verb)
        elif reach is Reach.TOPIC:
            allowed = self.scopes.allow(verb, topic)
        else:
            allowed = self.scopes.allow(verb, None)
        if not allowed:
            raise self.refusal(verb, topic)
        if reach is Reach.SUITE and not self.is_suite:
            raise Refusal(
                "forbidden",
                f"this is about all namespaces, and {self.actor} is bound to "
                f"{shown_namespace(self.namespace)}; use a key of the whole suite "
                "(halfpast keys create --all-namespaces)",
            )

    def refusal(self, verb: Verb, topic: str | None) -> Refusal:
        """What to say to somebody who may not do it: the scope that is missing."""
        needed = Scope(verb, ALL if topic is None else topic)
        has = ", ".join(self.scopes.texts) or "no scope at all"
        return Refusal(
            "forbidden",
            f"this needs the scope {str(needed)!r}, and {self.actor} has {has}; use "
            "another key, or have an administrator give this one the scope",
        )


def shown_namespace(name: str) -> str:
    """A namespace, in a sentence."""
    return f"the namespace {name!r}" if name else "the default namespace"


OPEN_ACCESS: Final = Access(
    role="admin", scopes=EVERYTHING, may_view_payload=True, is_suite=True
)
"""Everybody's, where nobody is asked for a key."""

ANONYMOUS: Final = Access()
"""Somebody who has not said who they are, where that is asked for."""
