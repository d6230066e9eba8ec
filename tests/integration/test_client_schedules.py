"""Recurring schedules from the SDK and the command line, on a real server."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.integration.api_server import running_api
from tests.integration.cli_process import Suite
from typer.testing import CliRunner, Result

import halfpast
from halfpast_api.cli import app

FAR = datetime(2099, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest_asyncio.fixture
async def client(tmp_path: Path) -> AsyncIterator[halfpast.Client]:
    async with running_api(tmp_path) as api, halfpast.Client(api.address) as client:
        yield client


@pytest.mark.asyncio
async def test_all_that_a_schedule_may_say(client: halfpast.Client) -> None:
    made = await client.create_schedule(
        "ticks",
        b"\0\1",
        exponential=halfpast.Exponential(
            first=timedelta(seconds=2), factor=3.0, longest=HOUR
        ),
        start_at=FAR,
        until=FAR + HOUR,
        times=7,
        jitter=timedelta(milliseconds=1500),
        catch_up=halfpast.CatchUp.SKIP,
        grace=timedelta(seconds=9),
        key="k",
        tag="t",
        properties={"a": "b"},
        description="why",
    )
    assert made == await client.get_schedule(made.id)
    assert made.exponential == halfpast.Exponential(
        first=timedelta(seconds=2), factor=3.0, longest=HOUR
    )
    assert (made.start_at, made.until) == (FAR, FAR + HOUR)
    assert (made.times, made.jitter) == (7, timedelta(milliseconds=1500))
    assert (made.catch_up, made.grace) == (
        halfpast.CatchUp.SKIP,
        timedelta(seconds=9),
    )
    assert (made.key, made.tag, made.properties) == ("k", "t", {"a": "b"})
    assert (made.data, made.description) == (b"\0\1", "why")
    assert made.next_at is not None
    assert FAR <= made.next_at <= FAR + timedelta(milliseconds=1500)


@pytest.mark.asyncio
async def test_its_life(client: halfpast.Client) -> None:
    made = await client.create_schedule(
        "ticks", {"n": 1}, cron="0 9 * * *", time_zone="Asia/Tokyo", idempotency_key="i"
    )
    again = await client.create_schedule(
        "ticks", {"n": 1}, cron="0 9 * * *", time_zone="Asia/Tokyo", idempotency_key="i"
    )
    assert again.id == made.id
    nine = await client.next_occurrences(made.id, count=3)
    assert [it.at.hour for it in nine] == [0, 0, 0]
    assert [it.number for it in nine] == [1, 2, 3]
    changed = await client.change_schedule(made.id, data="x", times=5, version=1)
    assert (changed.data, changed.times, changed.version) == ("x", 5, 2)
    changed = await client.change_schedule(made.id, times=None, interval=HOUR)
    assert (changed.times, changed.interval, changed.cron) == (None, HOUR, None)
    with pytest.raises(halfpast.StaleVersion):
        await client.pause_schedule(made.id, version=1)
    paused = await client.pause_schedule(made.id)
    assert (paused.state, paused.next_at) == (halfpast.ScheduleState.PAUSED, None)
    assert (await client.resume_schedule(made.id)).next_at is not None
    ended = await client.delete_schedule(made.id)
    assert (ended.state, ended.reason) == (halfpast.ScheduleState.ENDED, "deleted")
    with pytest.raises(halfpast.Conflict, match="ended"):
        await client.resume_schedule(made.id)
    found = [it.id async for it in client.schedules(topic="ticks", page_size=1)]
    assert found == [made.id]


@pytest.mark.asyncio
async def test_it_delivers(client: halfpast.Client) -> None:
    made = await client.create_schedule("ticks", 1, interval=timedelta(seconds=1))
    (message,) = await client.pop("g", "ticks", wait=timedelta(seconds=5))
    assert message.properties["schedule_id"] == made.id
    assert message.deliver_at == made.next_at
    event = await client.get(message.id)
    assert event.state is halfpast.EventState.DELIVERED


@pytest.mark.asyncio
async def test_what_is_refused(client: halfpast.Client) -> None:
    with pytest.raises(halfpast.InvalidRequest, match="not a cron expression") as bad:
        await client.create_schedule("ticks", 1, cron="every day")
    assert [it.pointer for it in bad.value.errors] == ["/cron"]
    with pytest.raises(halfpast.InvalidRequest, match="Mars"):
        await client.create_schedule("ticks", 1, cron="* * * * *", time_zone="Mars")
    with pytest.raises(ValueError, match="time zone"):
        await client.create_schedule(
            "ticks", 1, cron="* * * * *", until=datetime(2099, 1, 1)
        )
    with pytest.raises(halfpast.NotFound):
        await client.get_schedule("00000000-0000-7000-8000-000000000000")


@pytest.mark.asyncio
async def test_without_asyncio(tmp_path: Path) -> None:
    def work(address: str) -> list[str]:
        with halfpast.SyncClient(address) as client:
            made = client.create_schedule("ticks", 1, cron="@daily")
            assert client.next_occurrences(made.id, count=1)[0].at == made.next_at
            return [it.id for it in client.schedules()]

    async with running_api(tmp_path) as api:
        assert len(await asyncio.to_thread(work, api.address)) == 1


# --- the command line ---------------------------------------------------------------


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    with Suite("dev", tmp_path_factory.mktemp("data"), "--port", "0") as suite:
        yield suite


def run(suite: Suite, *words: str) -> Result:
    """`halfpast schedule ...`, in this process."""
    words = ("schedule", *words, "--server", suite.address)
    return CliRunner().invoke(app, list(words))


def answers(suite: Suite, *words: str) -> list[Any]:
    done = run(suite, *words, "--json")
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_commands(suite: Suite) -> None:
    words = ("create", "ticks", '{"n": 1}', "--times", "3", "--jitter", "2s")
    (made,) = answers(suite, *words, "--every", "1h", "--property", "a=b")
    assert (made["interval_ms"], made["times"], made["jitter_ms"]) == (
        3600_000,
        3,
        2000,
    )
    assert (made["data"], made["properties"]) == ({"n": 1}, {"a": "b"})
    assert made["id"] in run(suite, "list").stdout
    assert [it["id"] for it in answers(suite, "list", "--topic", "ticks")] == [
        made["id"]
    ]
    assert [it["number"] for it in answers(suite, "next", made["id"])] == [1, 2, 3]
    assert "every 1 h" in run(suite, "show", made["id"]).stdout
    assert answers(suite, "pause", made["id"])[0]["state"] == "paused"
    assert run(suite, "resume", made["id"]).stdout.startswith("resumed")
    assert run(suite, "delete", made["id"]).stdout.startswith("deleted")
    shown = run(suite, "show", made["id"]).stdout
    assert "deleted" in shown
    ended = run(suite, "pause", made["id"])
    assert ended.exit_code == 1
    assert "make a new one" in ended.stderr


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("--cron", "30 2 * * *", "--time-zone", "Europe/Berlin"), "Europe/Berlin"),
        (("--backoff", "1s", "--backoff-max", "1h"), "at most 1 h"),
    ],
)
def test_other_rules(suite: Suite, words: tuple[str, ...], shown: str) -> None:
    (made,) = answers(suite, "create", "others", "x", *words)
    assert shown in run(suite, "show", made["id"]).stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "say when it occurs"),
        (("--cron", "nonsense"), "not a cron expression"),
        (("--every", "5"), "not a span of time"),
        (("--every", "1h", "--until", "tomorrow"), "not a time"),
        (("--every", "1h", "--catch-up", "maybe"), "maybe"),
        (("--every", "1h", "--cron", "* * * * *"), "give only one"),
    ],
)
def test_what_the_commands_refuse(
    suite: Suite, words: tuple[str, ...], said: str
) -> None:
    done = run(suite, "create", "ticks", "1", *words)
    assert done.exit_code in (1, 2)
    assert said in done.stderr
