"""A store written by the real services, with a journal, and a broken copy of its log.

A test module says `pytest_plugins = ["tests.integration.audit_store"]` and asks for
`written`. Needs no Spark.

PYTEST_DONT_REWRITE: tests import its names before it is a plugin.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from halfpast_loadtest.audit_faults import FaultPlan, Faults, break_copy
from halfpast_loadtest.audit_journal import Journal
from halfpast_loadtest.audit_truth import QUICK_FAILURES, AuditTruth, TruthConfig
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.server_process import ServerProcess
from halfpast_spark.sla import Sla, SlaRules
from halfpast_spark.summaries import Summary

SEGMENT_SIZE = 8 * 1024  # so that the copies have several
PLAN = FaultPlan(
    lost=2, doubled=3, early=2, hollow=1, missing=2, contradicted=1, leaked=2
)
PATIENT = SlaRules(Sla(3_600_000, 0.999))
"""How late something is, is not journalled: only whether it came."""


@dataclass(frozen=True)
class Written:
    """A store that was written and stopped, copies of its log in small segments (one
    is sound, one broken), and the truth."""

    sound: Path
    broken: Path
    journal: Journal
    faults: Faults


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("truth")
    journal = asyncio.run(_load(folder / "store"))
    sound, broken = folder / "sound", folder / "broken"
    break_copy(folder / "store", sound, FaultPlan(), segment_size=SEGMENT_SIZE)
    faults = break_copy(folder / "store", broken, PLAN, segment_size=SEGMENT_SIZE)
    assert len(list((broken / "log").iterdir())) > 3
    return Written(sound, broken, journal, faults)


async def _load(folder: Path) -> Journal:
    config = TruthConfig(transactions=4, timers=6, refused=2)
    settings = {**QUICK_FAILURES, "HALFPAST_API_GRPC_ADDRESS": "off"}
    server = ServerProcess(folder, settings=settings)
    async with server.running():
        client = PatientClient(server.host, server.port)
        journal = await AuditTruth(client, config).run()
        client.close()
        assert server.stop() == 0
    return journal


def counted(
    found: Sequence[Summary], audit: str
) -> dict[tuple[str, ...], Counter[str]]:
    """What is not 0, of what the journal tells whatever the SLA is."""
    left_out = {"in_sla"} if audit == "on_time" else set[str]()
    return {
        summary.key: Counter(
            {
                name: count
                for name, count in summary.counts.items()
                if count and name not in left_out
            }
        )
        for summary in found
    }


def punctual(found: Sequence[Summary]) -> Counter[str]:
    """What is within an SLA that all keep, by topic; for rules that are PATIENT."""
    counts = Counter({it.key[0]: it.counts["in_sla"] for it in found})
    return +counts
