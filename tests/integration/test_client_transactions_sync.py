"""Transactions and check-backs from threads, against the real server."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from tests.integration.cli_process import Suite
from tests.integration.client_barrier_places import Base, Order

import halfpast

POLL = timedelta(milliseconds=100)


@pytest.fixture(scope="module")
def real_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Suite("dev", tmp_path_factory.mktemp("data"), "--port", "0") as suite:
        yield suite.address


def test_threads_have_the_same(real_url: str) -> None:
    topic, group = f"t{uuid4().hex}", f"g{uuid4().hex}"
    with (
        halfpast.SyncClient(real_url) as client,
        client.produce(
            group,
            lambda question: "committed",
            poll=POLL,
            check_after=timedelta(milliseconds=20),
        ) as producer,
    ):
        with client.transaction(group) as tx:
            tx.send(topic, 1)
            tx.send_all([halfpast.NewEvent(topic=topic, data=2)])
        assert tx.state is halfpast.TransactionState.COMMITTED
        forgotten = producer.transaction()
        forgotten.send(topic, 3)
        dropped = client.transaction(group)
        _fail_in(dropped, topic)
        assert dropped.state is halfpast.TransactionState.ROLLED_BACK
        found: list[object] = []
        while len(found) < 3:
            wait = timedelta(seconds=10)
            found += [m.data for m in client.pop("c", topic, wait=wait)]
    assert sorted(map(str, found)) == ["1", "2", "3"]


def _fail_in(tx: halfpast.SyncTransaction, topic: str) -> None:
    def work() -> None:
        with tx:
            tx.send(topic, 4)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()


def test_the_barrier_serves_threads_too(real_url: str, tmp_path: Path) -> None:
    topic, group = f"t{uuid4().hex}", f"g{uuid4().hex}"
    engine = create_engine(f"sqlite:///{tmp_path}/orders.sqlite")
    Base.metadata.create_all(engine)
    with (
        halfpast.SyncClient(real_url) as client,
        client.produce(group, halfpast.barrier_check(engine), poll=POLL) as producer,
    ):
        with producer.transaction() as tx:
            tx.send(topic, "kept")
            with Session(engine) as session, halfpast.barrier(session, tx):
                session.add(Order(id=tx.id))
        assert tx.local is halfpast.LocalOutcome.COMMITTED
        [message] = client.pop("c", topic, wait=timedelta(seconds=10))
        assert message.data == "kept"
    engine.dispose()
