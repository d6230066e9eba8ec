"""Operations as the API shows them: many events or dead letters changed at once."""

import msgspec


class Operation(msgspec.Struct, kw_only=True):
    """How far one has come."""

    id: str
    action: str
    state: str
    dry_run: bool = False
    filter: dict[str, str | list[str] | None] = {}
    shift_ms: int | None = None
    deliver_at: str | None = None
    scanned: int = 0
    expected: int | None = None
    matched: int = 0
    changed: int = 0
    gone: int = 0
    progress: float | None = None
    created_at: str
    finished_at: str | None = None
    error: str | None = None

    @property
    def wanted(self) -> dict[str, str]:
        """The filter, without what was left open; of ids, how many."""
        return {
            name: it if isinstance(it, str) else str(len(it))
            for name, it in self.filter.items()
            if it
        }

    @property
    def done_word(self) -> str:
        """`cancelled`"""
        words = {"cancel": "cancelled", "reschedule": "moved", "redrive": "redriven"}
        return words.get(self.action, f"{self.action}ed")


class OperationPage(msgspec.Struct):
    operations: list[Operation]
    next_page_token: str | None = None
