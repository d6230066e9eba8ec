"""Transactions of every fate, each brought about as a producer or operator would."""

from functools import partial
from typing import Any

from halfpast_loadtest.audit_calls import AuditCalls
from halfpast_loadtest.audit_journal import CHECKED, FATES, Journal

SOON_MS = 100  # the shortest time before a check-back, and between two
RESUMED_MS = 1_000  # until it is parked again, if nobody answers
LONG_MS = 86_400_000
TOPICS = ("orders", "bills")
INTERVALS_MS = {"parked": SOON_MS, "forced": SOON_MS, "resumed": RESUMED_MS}
"""Of those that are parked."""
ANSWERS = {
    "lost_commit": "committed",
    "lost_rollback": "rolled_back",
    "slow_commit": "unknown",
}


class AuditTransactions:
    """`count` of each fate. Those that are asked are asked once; the resumed ones once
    before they are parked, and once each time that they are resumed."""

    def __init__(self, calls: AuditCalls, journal: Journal, count: int) -> None:
        self._calls = calls
        self._journal = journal
        self._count = count

    async def begin(self) -> None:
        """All of them; those that need nobody else also end."""
        for fate in FATES:
            for number in range(self._count):
                await self._begin(fate, number)

    async def finish(self) -> None:
        """Answer what is asked, and decide what is parked."""
        for fate, state in ANSWERS.items():
            await self._answer(fate, state)
        for fate in INTERVALS_MS:
            group = self._group(fate)
            path = f"/v1/transactions?state=parked&producer_group={group}&limit=1000"
            await self._calls.until(partial(self._has, path))
        for key in self._of("forced"):
            body = {"state": "committed", "reason": "the books say so"}
            await self._calls.post(f"/v1/transactions/{key}:force", body)
        await self._resume()

    async def _begin(self, fate: str, number: int) -> None:
        calls, journal = self._calls, self._journal
        sent = [self._message(number, at) for at in range(number % 3 + 1)]
        is_parked = fate in INTERVALS_MS
        group = self._group(fate)
        given = {
            "producer_group": group,
            "messages": sent,
            "check_after_ms": SOON_MS if fate in CHECKED else LONG_MS,
            "check_interval_ms": INTERVALS_MS.get(fate, LONG_MS),
            "check_max": 1 if is_parked else 15,
        }
        begun = await calls.post("/v1/transactions", given)
        key: str = begun["id"]
        made = [(it["id"], it["topic"]) for it in begun["messages"]]
        journal.transactions[key] = fate
        journal.groups[key] = group
        if fate in CHECKED:
            journal.checks[key] = 1
        journal.topics[key] = made
        for (event_id, topic), message in zip(made, sent, strict=True):
            if "delay_ms" in message:
                journal.delayed[event_id] = topic
        if fate in {"committed", "rolled_back"}:
            await self._end(key, fate)

    def _message(self, number: int, at: int) -> dict[str, Any]:
        topic = self._calls.name(TOPICS[(number + at) % len(TOPICS)])
        message: dict[str, Any] = {"topic": topic, "data": {"number": number}}
        if at == 1:
            message["delay_ms"] = 20
        return message

    async def _answer(self, fate: str, state: str) -> None:
        """Each is asked; what is said is its fate."""
        wanted = self._of(fate)

        async def are_answered() -> bool:
            for it in await self._say(fate, state, wanted):
                wanted.discard(it)
                if fate == "slow_commit":
                    await self._end(it, "committed")
            return not wanted

        await self._calls.until(are_answered)

    async def _resume(self) -> None:
        """Who answers too late finds it parked again, and has it asked once more."""
        wanted = self._of("resumed")

        async def are_answered() -> bool:
            for key in wanted:
                path = f"/v1/transactions/{key}"
                if (await self._calls.get(path))["state"] == "parked":
                    await self._calls.post(f"{path}:resume", {})
                    self._journal.checks[key] += 1
            wanted.difference_update(await self._say("resumed", "committed", wanted))
            return not wanted

        await self._calls.until(are_answered)

    async def _say(self, fate: str, state: str, wanted: set[str]) -> list[str]:
        """Answer the questions that are there; gives whose answers were taken."""
        path = f"/v1/producer-groups/{self._group(fate)}/checks"
        asked = (await self._calls.get(f"{path}?wait_ms=500&max=100"))["checks"]
        said = [
            {"id": it["id"], "check": it["check"], "state": state}
            for it in asked
            if it["id"] in wanted
        ]
        if not said:
            return []
        told = await self._calls.post(f"{path}:answer", {"answers": said})
        return [
            answer["id"]
            for answer, result in zip(said, told["results"], strict=True)
            if result["status"] == 200
        ]

    async def _end(self, key: str, fate: str) -> None:
        verb = "commit" if fate != "rolled_back" else "rollback"
        await self._calls.post(f"/v1/transactions/{key}:{verb}", {})

    async def _has(self, path: str) -> bool:
        return len((await self._calls.get(path))["transactions"]) >= self._count

    def _of(self, fate: str) -> set[str]:
        found = self._journal.transactions.items()
        return {key for key, known in found if known == fate}

    def _group(self, fate: str) -> str:
        return self._calls.name(f"{fate}-makers")
