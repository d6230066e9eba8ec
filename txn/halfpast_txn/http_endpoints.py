"""What is remembered of each endpoint between calls: its circuit, and its slots.

It is forgotten when nothing was asked there for an hour.
"""

import re
from dataclasses import dataclass, field
from hashlib import sha256

from yarl import URL

from .circuit_breaker import CircuitBreaker, CircuitConfig
from .http_slots import Slots

UNUSED_MS_MAX = 3_600_000
ENDPOINT_COUNT_MAX = 10_000
LABEL_LENGTH_MAX = 100
_NOT_SHOWN = re.compile(r"[^A-Za-z0-9.:\[\]-]")


@dataclass(slots=True)
class EndpointState:
    """`label` names the endpoint in logs and metrics without telling its path."""

    label: str
    breaker: CircuitBreaker
    used_ms: int
    slots: Slots = field(default_factory=Slots)


class EndpointStates:
    """By URL, those used last at the end."""

    def __init__(self, config: CircuitConfig) -> None:
        self._config = config
        self._states: dict[str, EndpointState] = {}

    def __len__(self) -> int:
        return len(self._states)

    def use(self, url: str, now_ms: int) -> EndpointState:
        """The state of an endpoint that is about to be asked."""
        state = self._states.pop(url, None)
        if state is None:
            breaker = CircuitBreaker(self._config)
            state = EndpointState(endpoint_label(url), breaker, now_ms)
        state.used_ms = now_ms
        self._states[url] = state
        self.forget(now_ms)
        return state

    def forget(self, now_ms: int) -> None:
        """Drop what was not used for long, or is too much. Busy ones stay."""
        excess = len(self._states) - ENDPOINT_COUNT_MAX
        dropped: list[str] = []
        for url, state in self._states.items():
            is_old = now_ms - state.used_ms > UNUSED_MS_MAX
            if not is_old and len(dropped) >= excess:
                break
            if state.slots.is_idle:
                dropped.append(url)
        for url in dropped:
            del self._states[url]

    def shown(self, count_max: int) -> list[EndpointState]:
        """Those in trouble first, then those used last."""
        states = reversed(self._states.values())
        return sorted(states, key=lambda state: -state.breaker.circuit)[:count_max]


def endpoint_label(url: str) -> str:
    """`host:port/` and a few digits for the whole URL, safe as the value of a label."""
    digits = sha256(url.encode(errors="surrogatepass")).hexdigest()[:8]
    try:
        parts = URL(url)
        host = (
            f"[{parts.raw_host}]" if ":" in (parts.raw_host or "") else parts.raw_host
        )
        place = f"{host or ''}:{parts.port or ''}"
    except ValueError:
        place = "bad-url"
    return f"{_NOT_SHOWN.sub('_', place)[-LABEL_LENGTH_MAX:]}/{digits}"
