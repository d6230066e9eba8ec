"""With which key a client calls: one that is given, or what the environment names.

HALFPAST_API_KEY     hp_…, or a token of an identity provider
HALFPAST_NAMESPACE   for keys of the whole suite: where to act
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

API_KEY = "HALFPAST_API_KEY"
NAMESPACE = "HALFPAST_NAMESPACE"
_LENGTH_MAX = 16_384


@dataclass(frozen=True, slots=True)
class Credentials:
    """The key, which is never shown, and the namespace."""

    api_key: str = field(default="", repr=False)
    namespace: str = ""

    @classmethod
    def found(
        cls,
        api_key: str | None,
        namespace: str | None,
        environment: Mapping[str, str] = os.environ,
    ) -> "Credentials":
        """What is given, or else what the environment has; an empty text is neither.

        Raises ValueError, without showing it, for what cannot be a key.
        """
        key = environment.get(API_KEY, "") if api_key is None else api_key
        name = environment.get(NAMESPACE, "") if namespace is None else namespace
        key = key.strip()
        is_word = key.isascii() and key.isprintable() and " " not in key
        if not is_word or len(key) > _LENGTH_MAX:
            raise ValueError(
                f"the API key holds what no key has; look at {API_KEY} or api_key"
            )
        if not (name.isascii() and name.isprintable()):
            raise ValueError(f"{name!r} is not the name of a namespace")
        return cls(key, name)

    def headers(self) -> dict[str, str]:
        """What goes with every request."""
        sent: dict[str, str] = {}
        if self.api_key:
            sent["Authorization"] = f"Bearer {self.api_key}"
        if self.namespace:
            sent["Halfpast-Namespace"] = self.namespace
        return sent
