"""Where one transaction stands, as the index keeps it."""

import msgspec

from .transactions import (
    EndResult,
    Happening,
    MessageHead,
    Source,
    Transaction,
    TransactionState,
)

TIMELINE_MAX = 40


class Status(msgspec.Struct, array_like=True):
    """Everything but the messages. Beginning and outcome are not in `timeline`.

    `check_limit`: after so many check-backs it is parked; a resumption raises it.
    `check`: of an ended one, the number of the check-back that brought the outcome,
    or how many had been sent when somebody else did.
    """

    state: int
    group: str
    reference: str
    begun_ms: int
    message_count: int
    size: int
    check_interval_ms: int
    check_max: int
    check_limit: int
    next_ms: int
    checks: int = 0
    last_answer: str = ""
    decided_ms: int = 0
    source: int = Source.NOBODY
    check: int = 0
    reason: str = ""
    by: str = ""
    timeline: list[tuple[int, int]] = []

    @property
    def is_open(self) -> bool:
        """Whether it may still be given an outcome: prepared or parked."""
        return self.state in (TransactionState.PREPARED, TransactionState.PARKED)

    def happened(self, at_ms: int, what: Happening) -> None:
        """Enter something into the time line; of many, the first and the latest."""
        self.timeline.append((at_ms, int(what)))
        if len(self.timeline) > TIMELINE_MAX:
            del self.timeline[TIMELINE_MAX // 2]

    def outcome(self) -> EndResult:
        """What whoever gave this outcome was told."""
        return EndResult(
            state=self.state,
            decided_ms=self.decided_ms,
            source=self.source,
            checks=self.check,
        )

    def public(
        self, transaction_id: bytes, messages: list[MessageHead] | None = None
    ) -> Transaction:
        """As users of the service see it."""
        timeline = [(self.begun_ms, int(Happening.BEGUN)), *self.timeline]
        if not self.is_open:
            committed = self.state == TransactionState.COMMITTED
            what = Happening.COMMITTED if committed else Happening.ROLLED_BACK
            timeline.append((self.decided_ms, int(what)))
        return Transaction(
            transaction_id=transaction_id,
            state=self.state,
            group=self.group,
            reference=self.reference,
            begun_ms=self.begun_ms,
            message_count=self.message_count,
            checks=self.checks,
            check_max=self.check_max,
            check_interval_ms=self.check_interval_ms,
            next_ms=self.next_ms,
            last_answer=self.last_answer,
            decided_ms=self.decided_ms,
            source=self.source,
            check=self.check if self.source == Source.CHECK else 0,
            reason=self.reason,
            by=self.by,
            timeline=timeline,
            messages=messages or [],
        )


encode_status = msgspec.msgpack.Encoder().encode
decode_status = msgspec.msgpack.Decoder(Status).decode


def transaction_text(transaction_id: bytes) -> str:
    """A transaction's id as the API shows it."""
    text = transaction_id.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
