"""The nursery with real services: what it starts, how that ends, and when it dies."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.cli_process import is_alive, until

from halfpast_api.nursery import STAGES
from halfpast_api.nursery_link import KILLED, Nursed, NurseryLink


class World:
    """A supervisor's end, with the pipe that tells services of its end."""

    def __init__(self) -> None:
        self.pipe = os.pipe()
        self.link = NurseryLink(self.pipe[0])

    async def close(self) -> None:
        await self.link.close()
        for fd in self.pipe:
            os.close(fd)

    async def broker(self, folder: Path, **environment: str) -> Nursed:
        """A broker that answers."""
        socket = folder / "broker.sock"
        words = ("broker", "--data", str(folder), "--broker", f"unix:{socket}")
        small = {"HALFPAST_STORE_LOG_SEGMENT_SIZE": str(1 << 20)}
        nursed = await self.link.start(words, {**small, **environment})
        assert nursed.stdout is not None
        assert b"broker is ready" in await nursed.stdout.readline()
        return nursed


def title_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def parent_of(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat[stat.rindex(")") + 2 :].split()[1])


@pytest.mark.asyncio
async def test_each_service_is_a_fork_under_its_own_name(tmp_path: Path) -> None:
    world = World()
    first = await world.broker(tmp_path / "a")
    second = await world.broker(tmp_path / "b")
    nursery = parent_of(first.pid)
    assert parent_of(second.pid) == nursery
    assert parent_of(nursery) == os.getpid()
    assert title_of(second.pid).startswith(f"halfpast broker --data {tmp_path}/b ")
    assert os.getpgid(first.pid) == first.pid  # no Ctrl-C reaches it
    first.send_signal(signal.SIGTERM)
    second.send_signal(signal.SIGKILL)
    assert await first.wait() == 0
    assert await second.wait() == second.returncode == KILLED
    with pytest.raises(ProcessLookupError):
        first.send_signal(signal.SIGTERM)
    await world.close()
    assert not is_alive(nursery)


@pytest.mark.asyncio
async def test_a_service_has_no_file_of_another_one(tmp_path: Path) -> None:
    """Else the supervisor would wait for output that can never come."""
    world = World()
    first = await world.broker(tmp_path / "a")
    second = await world.broker(tmp_path / "b")
    first.send_signal(signal.SIGKILL)
    assert first.stdout is not None
    assert await first.stdout.read() == b""  # to its end, though the other one runs
    second.send_signal(signal.SIGTERM)
    assert await second.wait() == 0
    await world.close()


@pytest.mark.asyncio
async def test_a_service_that_cannot_start_says_why_and_with_which_status(
    tmp_path: Path,
) -> None:
    world = World()
    nursed = await world.link.start(
        ["broker", "--data", str(tmp_path)],
        {"HALFPAST_STORE_LOG_SEGMENT_SIZE": "much"},
    )
    assert nursed.stdout is not None
    text = await nursed.stdout.read()
    assert b"HALFPAST_STORE_LOG_SEGMENT_SIZE" in text
    assert await nursed.wait() == 2
    await world.close()


@pytest.mark.asyncio
async def test_services_die_with_the_nursery_and_the_next_comes_from_a_new_one(
    tmp_path: Path,
) -> None:
    world = World()
    first = await world.broker(tmp_path / "a")
    nursery = parent_of(first.pid)
    os.kill(nursery, signal.SIGKILL)
    assert await first.wait() == KILLED
    until(lambda: not is_alive(first.pid))
    again = await world.broker(tmp_path / "a")
    assert parent_of(again.pid) != nursery
    again.send_signal(signal.SIGTERM)
    assert await again.wait() == 0
    await world.close()


def test_everything_dies_with_the_supervisor(tmp_path: Path) -> None:
    program = f"""
import asyncio, os, sys
from pathlib import Path
sys.path.insert(0, {str(Path.cwd())!r})
from tests.integration.test_cli_nursery import World, parent_of

async def main():
    nursed = await World().broker(Path({str(tmp_path)!r}))
    print(nursed.pid, parent_of(nursed.pid), flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""
    supervisor = subprocess.Popen([sys.executable, "-c", program], stdout=-1, text=True)
    with supervisor:
        assert supervisor.stdout is not None
        pids = list(map(int, supervisor.stdout.readline().split()))
        assert len(pids) == 2
        supervisor.kill()
        for pid in pids:
            until(lambda pid=pid: not is_alive(pid))  # type: ignore[misc]


def test_every_stage_can_be_loaded() -> None:
    """A module that has been renamed would just be loaded later, and five times."""
    modules = [name for _, names in STAGES for name in names]
    program = "import importlib, sys\nfor name in sys.argv[1:]:\n"
    program += "    importlib.import_module(name)\n"
    program += "assert 'Threads:\\t1\\n' in open('/proc/self/status').read()"
    done = subprocess.run([sys.executable, "-c", program, *modules], check=False)
    assert done.returncode == 0
