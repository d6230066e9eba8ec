"""What a load did, by id: the truth that audits are held against."""

from dataclasses import dataclass, field

FATES = (
    "committed",
    "rolled_back",
    "open",
    "parked",
    "lost_commit",  # the second phase is lost; a check-back brings the commit
    "lost_rollback",
    "slow_commit",  # checked back first, then the producer's own commit comes
    "forced",  # parked, then committed by an operator
    "resumed",  # parked, asked again by an operator, and then committed
)
CHECKED = frozenset(
    {"parked", "lost_commit", "lost_rollback", "slow_commit", "forced", "resumed"}
)
COMMITTED = frozenset({"committed", "lost_commit", "slow_commit", "forced", "resumed"})
TIMER_FATES = (
    "fired",
    "cancelled",
    "moved",
    "now",  # delivered at once, when somebody asked for it
    "bulk_cancelled",
    "bulk_moved",
    "replaced",  # by its own name, with another body and due time
    "pending",
)
REFUSED_FATES = ("dead", "redriven")
"""Their topic does not take them."""


@dataclass(slots=True)
class Journal:
    """What was done, by id: what became of each transaction, timer and message."""

    transactions: dict[str, str] = field(default_factory=lambda: {})
    """The fate of each, by its id."""
    topics: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: {})
    """Its messages: their ids with their topics."""
    groups: dict[str, str] = field(default_factory=lambda: {})
    checks: dict[str, int] = field(default_factory=lambda: {})
    """How often each was asked about, of those that were."""
    delayed: dict[str, str] = field(default_factory=lambda: {})
    """Messages of transactions that begin a delay with the commit: id and topic."""
    timers: dict[str, tuple[str, str]] = field(default_factory=lambda: {})
    """Topic and fate of each timer that was scheduled on its own."""
    occurrences: dict[str, str] = field(default_factory=lambda: {})
    """Topic of each message that a recurring schedule brought."""
    messages: dict[str, str] = field(default_factory=lambda: {})
    """Topic of each message that was published for now."""
    consumed: set[str] = field(default_factory=lambda: set())
    given_up: set[str] = field(default_factory=lambda: set())
    """Consumed ones that the group made dead letters of."""
    consumer_group: str = ""
