"""What all endpoints of a process may hold together, so that none fills the memory.

An endpoint that holds nothing may always take one message, and make one call: so those
that hold much keep nobody else from working.
"""

from halfpast_api.push.config import PushConfig


class Budget:
    """Counts bytes held and calls under way."""

    def __init__(self, config: PushConfig) -> None:
        self._config = config
        self.size = 0
        self.calls = 0

    def may_hold(self, own_size: int) -> bool:
        """Whether an endpoint that holds `own_size` bytes may take more."""
        if not own_size:
            return True
        if own_size >= self._config.held_size_each:
            return False
        return self.size < self._config.held_size_max

    def may_call(self, own_calls: int) -> bool:
        """Whether an endpoint with so many calls may make another."""
        return not own_calls or self.calls < self._config.in_flight_max
