"""`halfpast.embedded()` and the fixture, as their users have them."""

import importlib.metadata
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import halfpast

T0 = datetime(2026, 1, 1, tzinfo=UTC)
# pytest-asyncio would warn of a setting that these tests do not need.
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:asyncio", "-W", "error")
USERS_TEST = """
from datetime import timedelta


def test_a_reminder(halfpast):
    halfpast.client.schedule("reminders", {"order": 7}, delay=timedelta(minutes=30))
    halfpast.advance(minutes=29)
    assert halfpast.client.pop("mailer", "reminders") == []
    halfpast.advance(minutes=1)
    [message] = halfpast.client.pop("mailer", "reminders")
    assert message.data == {"order": 7}


def test_another_one_has_a_server_of_its_own(halfpast):
    assert halfpast.client.pop("mailer", "reminders") == []
"""


def test_a_delayed_flow_in_no_time() -> None:
    with halfpast.embedded(at=T0) as mq:
        assert mq.now() == T0
        mq.client.schedule("reminders", 7, delay=timedelta(minutes=30))
        assert mq.advance(timedelta(minutes=29), seconds=59) < T0 + timedelta(hours=1)
        assert mq.client.pop("mailer", "reminders") == []
        assert mq.advance_to(T0 + timedelta(minutes=30)) == mq.now()
        [message] = mq.client.pop("mailer", "reminders")
        assert (message.data, message.lateness) == (7, timedelta(0))


def test_consumers_in_threads_go_on_while_time_passes() -> None:
    got: list[object] = []
    enough = threading.Event()

    def handle(message: halfpast.Message) -> None:
        got.append(message.data)
        if len(got) == 3:
            enough.set()

    with halfpast.embedded(at=T0) as mq:
        for hours in (1, 2, 3):
            # With a key, so that they share a queue and come in its order.
            delay = timedelta(hours=hours)
            mq.client.schedule("jobs", hours, delay=delay, key="k")
        poll = timedelta(milliseconds=200)
        with mq.client.consume("workers", "jobs", handle, concurrency=1, poll=poll):
            mq.advance(days=1)
            assert enough.wait(30)
    assert got == [1, 2, 3]


def test_two_at_a_time_have_nothing_in_common() -> None:
    with halfpast.embedded(at=T0) as one, halfpast.embedded() as other:
        one.client.publish("topic", "one")
        one.advance(days=7)
        assert one.url != other.url
        assert other.now() > one.now()
        assert other.client.pop("group", "topic") == []


def test_what_the_environment_says_is_not_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HALFPAST_API_KEY", "hp_of_production")
    monkeypatch.setenv("HALFPAST_NAMESPACE", "production")
    monkeypatch.setenv("HALFPAST_API_AUTH", "keys")
    monkeypatch.setenv("HALFPAST_DATA", "/nowhere")
    with halfpast.embedded() as mq:
        assert mq.client.publish("topic", 1).topic == "topic"


@pytest.mark.asyncio
async def test_with_asyncio() -> None:
    async with halfpast.embedded(at=T0) as mq, mq.async_client() as client:
        await client.schedule("reminders", 7, delay=timedelta(minutes=30))
        assert await mq.advance(minutes=30) == await mq.now()
        assert [it.data for it in await client.pop("mailer", "reminders")] == [7]


def test_nothing_is_left_behind() -> None:
    def ours() -> set[str]:
        return {it.name for it in threading.enumerate()}

    before = ours()
    with halfpast.embedded() as mq:
        url = mq.url
        assert "halfpast-suite" in ours()
    assert ours() == before
    policy = halfpast.RetryPolicy(total_s=1, unreachable_s=0.1)
    with (
        halfpast.SyncClient(url, retry=policy) as client,
        pytest.raises(halfpast.ServerUnreachable),
    ):
        client.publish("topic", 1)


def test_wrong_use_is_told() -> None:
    with pytest.raises(ValueError, match="time zone"):
        halfpast.embedded(at=datetime(2026, 1, 1))
    with pytest.raises(ValueError, match="real_time"):
        halfpast.embedded(at=T0, real_time=True)


def test_without_a_server_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(**_: str) -> list[importlib.metadata.EntryPoint]:
        return []

    def broken(**_: str) -> list[importlib.metadata.EntryPoint]:
        return [importlib.metadata.EntryPoint("suite", "no_such_server:start", "group")]

    for found, reason in ((none, "no server"), (broken, "no_such_server")):
        monkeypatch.setattr(importlib.metadata, "entry_points", found)
        with (
            pytest.raises(halfpast.EmbeddedUnavailable, match=reason) as refused,
            halfpast.embedded(),
        ):
            pass
        assert "pip install" in str(refused.value)


def test_the_client_loads_nothing_of_the_server_and_the_plugin_nothing_at_all() -> None:
    code = (
        "import sys, halfpast\n"
        "assert not [it for it in sys.modules if it.startswith('halfpast_')]\n"
    )
    plugin = (
        "import sys, halfpast_pytest\n"
        "found = [it for it in sys.modules if it.startswith('halfpast')]\n"
        "assert found == ['halfpast_pytest'], found\n"
        "assert 'aiohttp' not in sys.modules\n"
    )
    for script in (code, plugin):
        subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_the_fixture_is_there_for_users(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(USERS_TEST)
    done = subprocess.run(
        [*PYTEST, str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
