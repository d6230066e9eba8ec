"""What a stream counts, and how."""

from dataclasses import dataclass, field

from .errors import BadOption
from .job_config import GRACE_MS, WINDOW_MS
from .job_errors import BadPeriod
from .retention import RetentionConfig
from .sla import SlaRules

MEMORY_MS = 3_600_000
EVERY_MS = 500
SAVE_EVERY_MS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """One stream. `checkpoint`: a folder that is the stream's own. `memory_ms`: for how
    long after it was made an id is remembered. `every_ms`: how often the counts are
    brought up to date. `save_every_ms`: how often a part of the memory is saved.
    `available_now`: end when all that is there has been counted. `retention`: for how
    long results are kept, looked at every `prune_every_s`."""

    store: str
    database: str
    checkpoint: str
    window_ms: int = WINDOW_MS
    grace_ms: int = GRACE_MS
    memory_ms: int = MEMORY_MS
    every_ms: int = EVERY_MS
    save_every_ms: int = SAVE_EVERY_MS
    batch_bytes: int = 32 * 1024 * 1024
    rules: SlaRules = field(default_factory=SlaRules)
    available_now: bool = False
    restart: bool = False
    retention: RetentionConfig = field(default_factory=RetentionConfig)
    prune_every_s: float = 3_600.0

    def __post_init__(self) -> None:
        """Raises BadPeriod, BadOption."""
        if self.window_ms <= 0 or self.memory_ms <= 0 or self.grace_ms < 0:
            why = "give a window and a memory of more than 0 ms, and no negative grace"
            raise BadPeriod(why)
        if self.every_ms <= 0:
            why = "counts are written every so often: give more than 0 ms"
            raise BadOption("every", f"{self.every_ms} ms", why)

    @property
    def name(self) -> str:
        """There is one stream for each window length: they would count twice."""
        return f"live-{self.window_ms}"
