"""What processes hold in memory, with shared pages divided among those who share them.

RSS counts a page once for every process that maps it, so sums of it count shared pages
several times. PSS gives each process its part, so sums of it are right; USS is what
would be free again if the process ended. Both count pages of mapped files that are in
memory, such as the log's, which the kernel takes back when it needs them; without
those is `pss_anonymous_mb`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from halfpast_loadtest.process_tree import PROC

KB_MB = 1024 / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """In MB (10^6 bytes)."""

    rss_mb: float = 0.0
    pss_mb: float = 0.0
    pss_anonymous_mb: float = 0.0
    uss_mb: float = 0.0

    def __add__(self, other: "Memory") -> "Memory":
        return Memory(
            rss_mb=self.rss_mb + other.rss_mb,
            pss_mb=self.pss_mb + other.pss_mb,
            pss_anonymous_mb=self.pss_anonymous_mb + other.pss_anonymous_mb,
            uss_mb=self.uss_mb + other.uss_mb,
        )

    def shown(self, prefix: str = "") -> dict[str, float]:
        """By name, rounded."""
        return {
            f"{prefix}rss_mb": round(self.rss_mb, 1),
            f"{prefix}pss_mb": round(self.pss_mb, 1),
            f"{prefix}pss_anonymous_mb": round(self.pss_anonymous_mb, 1),
            f"{prefix}uss_mb": round(self.uss_mb, 1),
        }


def memory_of(pids: Iterable[int]) -> Memory:
    """The sum over these processes, now; what is gone, or not ours, counts nothing."""
    found = Memory()
    for pid in pids:
        try:
            text = (PROC / str(pid) / "smaps_rollup").read_text()
        except OSError:
            continue
        found += parse_rollup(text)
    return found


def parse_rollup(text: str) -> Memory:
    """The text of /proc/PID/smaps_rollup."""
    kb: dict[str, int] = {}
    for line in text.splitlines()[1:]:
        name, _, value = line.partition(":")
        kb[name] = int(value.split()[0])
    private = kb.get("Private_Clean", 0) + kb.get("Private_Dirty", 0)
    return Memory(
        rss_mb=kb.get("Rss", 0) * KB_MB,
        pss_mb=kb.get("Pss", 0) * KB_MB,
        pss_anonymous_mb=kb.get("Pss_Anon", 0) * KB_MB,
        uss_mb=private * KB_MB,
    )
