"""Whom limits are for, as a text:

    key:k3x9q2mv   user:ann@example.org   namespace:acme   default-namespace
    every-key      every-user             every-namespace

Those of the second line apply to all of their kind that have none of their own.
"""

from dataclasses import dataclass
from typing import Final, Literal

from halfpast_api.access.access import Access
from halfpast_api.access.key_text import is_id
from halfpast_api.access.namespaced_names import DEFAULT, is_namespace
from halfpast_api.problems import Refusal

SubjectKind = Literal["key", "user", "namespace"]

DEFAULT_NAMESPACE: Final = "default-namespace"
EVERY: Final[dict[str, SubjectKind]] = {
    "every-key": "key",
    "every-user": "user",
    "every-namespace": "namespace",
}
_NAME_MAX: Final = 255 - len("user:")  # as much as the database takes


@dataclass(frozen=True, slots=True)
class Subject:
    """One of them. `is_every`: all of its kind; then it has no name."""

    kind: SubjectKind
    name: str = ""
    is_every: bool = False

    def __str__(self) -> str:
        if self.is_every:
            return f"every-{self.kind}"
        if self.kind == "namespace" and self.name == DEFAULT:
            return DEFAULT_NAMESPACE
        return f"{self.kind}:{self.name}"


def parse_subject(text: str) -> Subject:
    """Raises Refusal for what cannot be one."""
    if text in EVERY:
        return Subject(EVERY[text], is_every=True)
    if text == DEFAULT_NAMESPACE:
        return Subject("namespace", DEFAULT)
    kind, _, name = text.partition(":")
    if kind == "key" and is_id(name):
        return Subject("key", name)
    if kind == "user" and name.isprintable() and 0 < len(name) <= _NAME_MAX:
        return Subject("user", name)
    if kind == "namespace" and is_namespace(name):
        return Subject("namespace", name)
    shown = text if len(text) <= 40 else text[:40] + "…"
    raise Refusal(
        "invalid_subject",
        f"{shown!r} says for whom in no way that is known; give key:ID, user:NAME, "
        f"namespace:NAME, {DEFAULT_NAMESPACE}, {', '.join(EVERY)}",
    )


def subjects_of(access: Access) -> tuple[Subject, ...]:
    """Those whose limits a caller must keep to: itself, and where it is."""
    place = Subject("namespace", access.namespace)
    if access.key_id:
        return Subject("key", access.key_id), place
    if access.kind == "user":
        return Subject("user", access.actor.removeprefix("user:")), place
    return (place,)
