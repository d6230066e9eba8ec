"""The supervisor with real, small processes."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from halfpast_api.deathwatch import VARIABLE, die_with_supervisor
from halfpast_api.shutdown import REPEAT_S
from halfpast_api.supervisor import GaveUp, RestartPolicy, Service, Supervisor, ending

HASTY = RestartPolicy(pause_initial_s=0.01, pause_max_s=0.05, probe_s=0.005)

# Says that it is ready by making a file; removes it on SIGTERM.
PROGRAM = textwrap.dedent(
    """
    import os, pathlib, signal, sys, time
    from halfpast_api.deathwatch import die_with_supervisor
    die_with_supervisor(os.environ)
    ready = pathlib.Path(sys.argv[1])
    def end(*_):
        print("goodbye", flush=True)
        ready.unlink()
        sys.exit(0)
    signal.signal(signal.SIGTERM, end)
    ready.write_text(str(os.getpid()))
    print("hello", flush=True)
    while True:
        time.sleep(60)
    """
)


def service(name: str, ready: Path) -> Service:
    async def is_ready() -> bool:
        return has_text(ready)

    return Service(
        name=name,
        command=[sys.executable, "-c", PROGRAM, str(ready)],
        is_ready=is_ready,
    )


async def always() -> bool:
    return True


async def never() -> bool:
    return False


def has_text(path: Path) -> bool:
    return path.exists() and path.read_text() != ""


class Run:
    """A supervisor that runs in the background of a test."""

    def __init__(self, services: list[Service]) -> None:
        self.lines: list[str] = []
        self.supervisor = Supervisor(services, self.lines.append, HASTY)
        self.ready = asyncio.Event()
        self.task = asyncio.create_task(self.supervisor.run(self.ready.set))

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                assert not self.task.done(), self.lines
                await asyncio.sleep(0.005)

    async def stop(self) -> None:
        self.supervisor.stop()
        async with asyncio.timeout(20):
            await self.task


def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def is_alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text[text.rindex(")") + 2] != "Z"


@pytest.mark.asyncio
async def test_services_start_together_and_stop_in_reverse(tmp_path: Path) -> None:
    run = Run([service("first", tmp_path / "1"), service("second", tmp_path / "2")])
    await run.until(run.ready.is_set)
    await run.until(lambda: len(run.lines) == 2)
    await run.stop()
    assert sorted(run.lines[:2]) == ["first  | hello", "second | hello"]
    assert run.lines[2:] == ["second | goodbye", "first  | goodbye"]
    assert not has_text(tmp_path / "1")
    assert not has_text(tmp_path / "2")


@pytest.mark.asyncio
async def test_a_service_that_dies_is_started_again(tmp_path: Path) -> None:
    ready = tmp_path / "1"
    run = Run([service("only", ready)])
    await run.until(run.ready.is_set)
    pids: set[int] = set()
    for _ in range(3):
        await run.until(lambda: has_text(ready))
        pid = int(ready.read_text())
        pids.add(pid)
        ready.unlink()
        os.kill(pid, signal.SIGKILL)
    await run.until(lambda: has_text(ready))
    assert len(pids) == 3
    await run.stop()
    assert "only | was ended by SIGKILL; starting it again now" in run.lines


@pytest.mark.asyncio
async def test_a_service_that_never_answers_is_given_up(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; print('no disk'); sys.exit(74)"]
    broken = Service(name="broken", command=command, is_ready=never)
    run = Run([service("good", tmp_path / "1"), broken])
    with pytest.raises(GaveUp, match="broken does not start") as caught:
        await asyncio.wait_for(run.task, 20)
    assert caught.value.status == 74
    assert run.lines.count("broken | no disk") == HASTY.unready_max
    assert not (tmp_path / "1").exists()  # the other one was stopped


@pytest.mark.asyncio
@pytest.mark.parametrize("status", [2, 78])
async def test_what_another_start_cannot_help_is_given_up_at_once(status: int) -> None:
    code = f"import sys; print('wrong'); sys.exit({status})"
    command = [sys.executable, "-c", code]
    run = Run([Service(name="broken", command=command, is_ready=never)])
    with pytest.raises(GaveUp, match="broken does not start") as caught:
        await asyncio.wait_for(run.task, 20)
    assert caught.value.status == status
    assert run.lines == ["broken | wrong"]


@pytest.mark.asyncio
async def test_what_has_answered_before_gets_all_its_tries(tmp_path: Path) -> None:
    """Whatever it says: it is the same folder and the same command as before."""
    ready = tmp_path / "1"
    program = """
import pathlib, sys, time
ready = pathlib.Path(sys.argv[1])
if pathlib.Path(sys.argv[2]).exists():
    sys.exit(78)
ready.write_text("x")
time.sleep(60)
"""
    spoiled = tmp_path / "2"

    async def is_ready() -> bool:
        return has_text(ready)

    command = [sys.executable, "-c", program, str(ready), str(spoiled)]
    run = Run([Service(name="only", command=command, is_ready=is_ready)])
    await run.until(run.ready.is_set)
    spoiled.touch()
    pid = run.supervisor.pid_of("only")
    assert pid is not None
    ready.unlink()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(GaveUp) as caught:
        await asyncio.wait_for(run.task, 20)
    assert caught.value.status == 78
    again = [line for line in run.lines if "starting it again" in line]
    assert len(again) == HASTY.unready_max


@pytest.mark.asyncio
async def test_stopping_while_starting_leaves_nobody(tmp_path: Path) -> None:
    ready = tmp_path / "1"
    command = service("slow", ready).command
    run = Run([Service(name="slow", command=command, is_ready=never)])
    await run.until(ready.exists)
    await run.stop()
    assert not run.ready.is_set()
    assert not ready.exists()


@pytest.mark.asyncio
async def test_a_later_second_stop_kills() -> None:
    program = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: None)
print("deaf", flush=True)
while True:
    time.sleep(60)
"""
    command = [sys.executable, "-c", program]
    run = Run([Service(name="deaf", command=command, is_ready=always)])
    await run.until(lambda: "deaf | deaf" in run.lines)
    run.supervisor.stop()
    run.supervisor.stop()  # an echo
    await asyncio.sleep(REPEAT_S)
    assert not run.task.done()
    await run.stop()
    assert run.lines == ["deaf | deaf"]


@pytest.mark.parametrize("how", ["both", "pipe"])
def test_children_die_with_a_killed_supervisor(tmp_path: Path, how: str) -> None:
    """`pipe`: as where there is no parent-death signal."""
    patch = "import sys; sys.platform = 'other'\n" if how == "pipe" else ""
    ready = tmp_path / "1"
    supervising = f"""
import asyncio, sys
from halfpast_api.supervisor import Service, Supervisor
async def is_ready(): return False
async def main():
    command = [sys.executable, "-c", {patch + PROGRAM!r}, {str(ready)!r}]
    kept = Service(name="child", command=command, is_ready=is_ready)
    await Supervisor([kept], print).run(lambda: None)
asyncio.run(main())
"""
    parent = subprocess.Popen([sys.executable, "-c", supervising])
    until(lambda: has_text(ready))
    child = int(ready.read_text())
    assert is_alive(child)
    parent.kill()
    parent.wait()
    until(lambda: not is_alive(child))


def test_who_is_not_supervised_does_not_care() -> None:
    die_with_supervisor({})
    assert VARIABLE not in os.environ


def test_pauses_grow_and_the_first_restart_is_at_once() -> None:
    policy = RestartPolicy(pause_initial_s=0.5, pause_max_s=3.0)
    assert [policy.pause_s(n) for n in range(1, 7)] == [0, 0.5, 1, 2, 3, 3]
    assert policy.pause_s(10**9) == 3.0


def test_endings_in_words() -> None:
    assert ending(-9) == "was ended by SIGKILL"
    assert ending(74) == "ended with status 74"


@pytest.mark.asyncio
async def test_long_and_binary_output_is_passed_on() -> None:
    code = (
        "import sys; o = sys.stdout.buffer; o.write(b'x' * 200_000 + b'\\n\\xff\\nend')"
    )

    run = Run([Service(name="s", command=[sys.executable, "-c", code], is_ready=never)])
    began_s = time.monotonic()
    await run.until(lambda: "s | end" in run.lines)
    await run.stop()
    assert time.monotonic() - began_s < 20
    shown = run.lines[: run.lines.index("s | end")]
    assert sum(len(line) - len("s | ") for line in shown) == 200_001
