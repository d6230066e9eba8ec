"""One session of the console, as pages see it."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Somebody is logged in. `csrf_token` must come with all that changes something."""

    csrf_token: str = field(repr=False)
    created_at_ms: int
    expires_at_ms: int
