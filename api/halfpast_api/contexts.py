"""Servers by name: where each is, and with which key to call it.

    $XDG_CONFIG_HOME/halfpast/contexts.json, or ~/.config/halfpast/contexts.json

Only its owner may read it. What a command uses, the first that is there:

    --server, --api-key             on the command line
    --context NAME                  its server, key and namespace
    HALFPAST_URL, HALFPAST_API_KEY  in the environment, and HALFPAST_NAMESPACE
    HALFPAST_CONTEXT                as --context
    halfpast context use NAME       as --context; a key in the environment goes first

A context's key goes to no other server than its own: with --server, or HALFPAST_URL,
nothing of a context counts unless it is asked for.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

URL: Final = "HALFPAST_URL"
API_KEY: Final = "HALFPAST_API_KEY"
NAMESPACE: Final = "HALFPAST_NAMESPACE"
CONTEXT: Final = "HALFPAST_CONTEXT"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_SHOWN: Final = 8
_MODE: Final = 0o600


@dataclass(frozen=True, slots=True)
class Context:
    """A server. `api_key` and `namespace` are empty where it needs none."""

    server: str
    api_key: str = ""
    namespace: str = ""

    @property
    def shown_key(self) -> str:
        """The key as it may be seen: its beginning."""
        return self.api_key and self.api_key[:_SHOWN] + "…"


@dataclass(frozen=True, slots=True)
class Contexts:
    """All of them; `current` is the name of the one in use, or empty."""

    current: str = ""
    contexts: dict[str, Context] = field(default_factory=dict[str, Context])


class ContextError(Exception):
    """Contexts cannot be used like that; `hint` is what to try."""

    def __init__(self, text: str, hint: str) -> None:
        super().__init__(text, hint)
        self.text = text
        self.hint = hint

    def __str__(self) -> str:
        return self.text


def contexts_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the file is."""
    base = environment.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if base.startswith("/") else _home() / ".config"
    return folder / "halfpast" / "contexts.json"


def _home() -> Path:
    """A container may run as a user whom nobody has entered anywhere."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def load(path: Path) -> Contexts:
    """What the file says; nothing if there is none. Raises ContextError."""
    if not path.exists():
        return Contexts()
    import msgspec  # which most commands load anyway, but not all of them

    try:
        return msgspec.json.decode(path.read_bytes(), type=Contexts)
    except (OSError, msgspec.DecodeError) as error:
        raise ContextError(
            f"{path} cannot be read: {error}", "mend it, or remove it"
        ) from None


def save(path: Path, contexts: Contexts) -> None:
    """Replace the file, readable for its owner alone."""
    import msgspec

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    number = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    with os.fdopen(number, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(contexts), indent=2) + b"\n")
    fresh.replace(path)


def find(contexts: Contexts, name: str) -> Context:
    """The one of this name. Raises ContextError."""
    found = contexts.contexts.get(name)
    if found is None:
        known = ", ".join(sorted(contexts.contexts)) or "none so far"
        raise ContextError(
            f"there is no context {name!r} (there are: {known})",
            f"halfpast context add {name} http://127.0.0.1:7080",
        )
    return found


def environment_of(
    asked: str | None,
    *,
    has_server: bool,
    environment: Mapping[str, str],
    path: Path,
) -> dict[str, str]:
    """What the environment of a command must say beside what it says already, so that
    the right server is called. `asked`: --context; `has_server`: --server is given.

    An empty value means that nothing may be there. Raises ContextError.
    """
    if asked is not None and has_server:
        raise ContextError(
            "--context and --server both name a server", "give one of them"
        )
    if has_server or (asked is None and environment.get(URL)):
        return {}
    named = asked or environment.get(CONTEXT, "")
    contexts = load(path)
    name = named or contexts.current
    if not name:
        return {}
    found = find(contexts, name)
    wanted = {URL: found.server, NAMESPACE: found.namespace}
    if found.api_key and (named or not environment.get(API_KEY)):
        wanted[API_KEY] = found.api_key
    if not named and environment.get(NAMESPACE):
        del wanted[NAMESPACE]
    return wanted
