"""Names of one namespace: as its callers write them, and as the store has them.

    default namespace    orders           %DLQ%billing
    acme                 acme%orders      %DLQ%acme%billing

This is RocketMQ's form. A name of the default namespace may have a percent sign too,
as long as what is before it is not the name of a namespace.
"""

from collections.abc import Callable, Container
from typing import Final

from halfpast_api.metadata.errors import InvalidSettings
from halfpast_api.problems import Refusal
from halfpast_core_store.topics import DEAD_LETTER_PREFIX, NAME_LENGTH_MAX

DEFAULT: Final = ""
NAMESPACE_LENGTH_MAX: Final = 32
_SIGN: Final = "%"
_FIRST: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
)
_REST: Final = _FIRST | frozenset("_-")
_KEPT: Final = ("SYS_", "TRANS_", "DLQ", "RETRY")


class Names:
    """Translates for one namespace. `others`: the namespaces that there are."""

    def __init__(self, namespace: str, others: Callable[[], Container[str]]) -> None:
        self.namespace: Final = namespace
        self._others = others
        self._prefix = f"{namespace}{_SIGN}" if namespace else ""

    @property
    def prefix(self) -> str:
        """What the store has in front of each name; empty for the default one."""
        return self._prefix

    def inside(self, name: str) -> str | None:
        """The name as the store has it; None for one that belongs to another.

        Raises Refusal for one that is too long.
        """
        head, rest = _split_head(name)
        if not self._prefix:
            return None if self._is_foreign(rest) else name
        stored = f"{head}{self._prefix}{rest}"
        if len(stored) > NAME_LENGTH_MAX:
            shown = name if len(name) <= 40 else name[:40] + "…"
            raise Refusal(
                "name_too_long",
                f"{shown!r} has {len(name)} characters, and in this namespace a name "
                f"may have {NAME_LENGTH_MAX - len(head) - len(self._prefix)}",
            )
        return stored

    def outside(self, stored: str) -> str | None:
        """The name as callers know it; None for one that belongs to another."""
        head, rest = _split_head(stored)
        if self._prefix:
            if not rest.startswith(self._prefix):
                return None
            return head + rest[len(self._prefix) :]
        return None if self._is_foreign(rest) else stored

    def _is_foreign(self, rest: str) -> bool:
        before, sign, _ = rest.partition(_SIGN)
        return bool(sign) and before in self._others()


ALL_NAMES: Final = Names(DEFAULT, frozenset)
"""Those of a store without namespaces."""


def names_in(namespace: str) -> Names:
    """For processes that know a name to be of this namespace already."""
    return Names(namespace, frozenset)


def split_name(stored: str) -> tuple[str, str]:
    """The namespace and the name within it, as far as the name tells."""
    head, rest = _split_head(stored)
    before, sign, name = rest.partition(_SIGN)
    if not sign or not is_namespace(before):
        return DEFAULT, stored
    return before, head + name


def is_namespace(name: str) -> bool:
    """Whether a namespace may be called so."""
    return (
        0 < len(name) <= NAMESPACE_LENGTH_MAX
        and name[0] in _FIRST
        and _REST.issuperset(name)
        and not name.startswith(_KEPT)
    )


def check_namespace(name: str) -> None:
    """Raise InvalidSettings unless a namespace may be called so."""
    if not is_namespace(name):
        raise InvalidSettings(
            "namespace",
            f"must be 1 to {NAMESPACE_LENGTH_MAX} of A-Z a-z 0-9 _ -, begin with a "
            "letter or digit, and not with SYS_, TRANS_, DLQ or RETRY",
        )


def _split_head(name: str) -> tuple[str, str]:
    if name.startswith(DEAD_LETTER_PREFIX):
        return DEAD_LETTER_PREFIX, name[len(DEAD_LETTER_PREFIX) :]
    return "", name
