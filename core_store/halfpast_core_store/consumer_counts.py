"""What consumer groups took and said of it, since the process began."""

from .broker import SettleAction

_WORDS = {
    SettleAction.ACK: "ack",
    SettleAction.NACK: "nack",
    SettleAction.EXTEND: "extend",
    SettleAction.RELEASE: "release",
}


class ConsumerCounts:
    """Counted by request; a retry is delivered once more."""

    def __init__(self) -> None:
        self.delivered = 0
        self.dead = 0
        self._settled = dict.fromkeys(_WORDS, 0)

    def settled(self, action: int, count: int) -> None:
        """So many receipts were given back, and why."""
        self._settled[SettleAction(action)] += count

    def metrics(self) -> dict[str, float]:
        """By the names of the metrics."""
        return {
            "group_delivered_total": self.delivered,
            "group_dead_letters_total": self.dead,
            **{
                f'group_settled_total{{action="{_WORDS[action]}"}}': count
                for action, count in self._settled.items()
            },
        }
