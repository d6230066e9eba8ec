"""Messages for now, and a consumer group that takes some of them."""

from halfpast_loadtest.audit_calls import AuditCalls
from halfpast_loadtest.audit_journal import Journal

TOPIC = "letters"
CONSUMERS = "readers"
HOUR_MS = 3_600_000


class AuditMessages:
    """Two thirds are taken: every fifth of those is given up, the others are done. The
    rest is taken by nobody."""

    def __init__(self, calls: AuditCalls, journal: Journal) -> None:
        self._calls = calls
        self._journal = journal
        self._topic = calls.name(TOPIC)
        self._group = f"/v1/groups/{calls.name(CONSUMERS)}"
        journal.consumer_group = calls.name(CONSUMERS)

    async def publish(self, count: int) -> None:
        events = [{"topic": self._topic, "data": at} for at in range(count)]
        self._journal.messages.update(await self._calls.publish(events))

    async def consume(self) -> None:
        calls, journal = self._calls, self._journal
        await calls.ask("PUT", self._group, {"max_attempts": 1})
        wanted = len(journal.messages) * 2 // 3
        while len(journal.consumed) < wanted:
            request = {
                "topic": self._topic,
                "max": min(32, wanted - len(journal.consumed)),
                "wait_ms": 1000,
                "invisible_ms": HOUR_MS,
            }
            popped = (await calls.post(f"{self._group}:pop", request))["messages"]
            given_up = {it["id"] for it in popped[::5]}
            done = [it["receipt"] for it in popped if it["id"] not in given_up]
            failed = [it["receipt"] for it in popped if it["id"] in given_up]
            for verb, receipts in (("ack", done), ("nack", failed)):
                if receipts:
                    await calls.post(f"{self._group}:{verb}", {"receipts": receipts})
            journal.given_up |= given_up
            journal.consumed |= {it["id"] for it in popped}
