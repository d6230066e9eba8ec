"""What group commit does: how much shares a frame, and how long a frame takes."""

from .histogram import Histogram

_SECONDS = (
    *(0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05),
    *(0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
)
_REQUESTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
_RECORDS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536)


class CommitCounts:
    """Of one store, since the process began. All is counted by frame, not by message;
    `seconds` by the thread that writes, the rest by the loop's."""

    def __init__(self) -> None:
        self.frames = 0
        self.records = 0
        self.seconds = Histogram(_SECONDS)
        self._requests = Histogram(_REQUESTS)
        self._records = Histogram(_RECORDS)

    def add(self, requests: int, records: int) -> None:
        """One frame is durable and applied."""
        self.frames += 1
        self.records += records
        self._requests.add(requests)
        self._records.add(records)

    def metrics(self) -> dict[str, float]:
        """By the names of the metrics."""
        return {
            "log_frames_total": self.frames,
            "log_records_total": self.records,
            **self.seconds.metrics("log_commit_seconds"),
            **self._requests.metrics("log_commit_requests"),
            **self._records.metrics("log_commit_records"),
        }
