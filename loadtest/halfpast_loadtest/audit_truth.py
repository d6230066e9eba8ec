"""A load that knows what it did: what audits must find, class by class.

Everything goes through the API of a real server, and every fate is brought about as a
user would: transactions that commit, roll back, lose their second phase, are slow, are
forgotten, parked, resumed or forced; timers that fire, are cancelled, moved, replaced,
refused by their topic, or still wait; a recurring schedule; messages that a consumer
group has done, given up or never taken. The journal (`audit_journal.py`) is kept from
the answers alone and never looks at the log.

    journal = await AuditTruth(client, TruthConfig()).run()

Ids are those that the API gives. Times are not journalled: windows differ from run to
run, sums over them do not.
"""

import random
from dataclasses import dataclass
from functools import partial

from halfpast_loadtest.audit_calls import AuditCalls
from halfpast_loadtest.audit_journal import COMMITTED, Journal
from halfpast_loadtest.audit_messages import AuditMessages
from halfpast_loadtest.audit_timers import AuditTimers
from halfpast_loadtest.audit_transactions import AuditTransactions
from halfpast_loadtest.patient_client import PatientClient

QUICK_FAILURES = {
    "HALFPAST_CHRONOS_ATTEMPTS_MAX": "2",
    "HALFPAST_CHRONOS_RETRY_INITIAL_MS": "20",
}
"""Settings of a server with which refused timers are dead within a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthConfig:
    """How much of each fate. `prefix` goes before all names, so that several loads
    may share a store. `refused` timers need a server with QUICK_FAILURES."""

    transactions: int = 10
    timers: int = 40
    refused: int = 0
    ticks: int = 3
    messages: int = 60
    seed: int = 1
    prefix: str = ""


class AuditTruth:
    """One load. The server must be ready; no one else may use its topics."""

    def __init__(self, client: PatientClient, config: TruthConfig) -> None:
        self._config = config
        self._calls = AuditCalls(client, config.prefix)
        self.journal = Journal()

    async def run(self) -> Journal:
        """Do all of it; returns when nothing is under way any more."""
        config, calls, journal = self._config, self._calls, self.journal
        transactions = AuditTransactions(calls, journal, config.transactions)
        timers = AuditTimers(calls, journal, random.Random(config.seed))
        messages = AuditMessages(calls, journal)
        await transactions.begin()
        await timers.schedule(config.timers, config.refused)
        await messages.publish(config.messages)
        await transactions.finish()
        await timers.change()
        await timers.recur(config.ticks)
        await messages.consume()
        await self._wait_for_commits()
        await timers.settle()
        await messages.publish(1)  # the end of the log lies behind all of it
        return journal

    async def _wait_for_commits(self) -> None:
        """Until what they released has arrived."""
        for key, fate in self.journal.transactions.items():
            for event_id, _ in self.journal.topics[key]:
                if fate in COMMITTED:
                    await self._calls.until(partial(self._is_there, event_id))

    async def _is_there(self, event_id: str) -> bool:
        return await self._calls.state(event_id) in {"delivered", "stored"}
