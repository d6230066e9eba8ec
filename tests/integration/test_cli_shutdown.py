"""How a service process ends, with a process that does nothing else."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from halfpast_api.cli_output import INTERRUPTED
from halfpast_api.shutdown import REPEAT_S

PROGRAM = textwrap.dedent(
    """
    import asyncio, sys
    from halfpast_api.shutdown import serve_until_asked
    from halfpast_core_store.errors import IndexFailed, StoreFailed

    async def close(name):
        print("closed", name, flush=True)
        if name in sys.argv:
            await asyncio.sleep(60)

    async def open_parts(stack):
        for name in ("first", "second"):
            stack.push_async_callback(close, name)
        failed = asyncio.get_running_loop().create_future()
        if "fail" in sys.argv:
            failed.set_exception(StoreFailed("fdatasync: EIO"))
        if "index" in sys.argv:
            failed.set_exception(IndexFailed("d/txn", "IO error: EIO"))
        if "break" in sys.argv:
            failed.set_exception(RuntimeError("a bug"))
        return [failed]

    asyncio.run(serve_until_asked(open_parts, lambda: print("ready", flush=True)))
    """
)


def start(*words: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_parts_close_in_reverse_order(number: signal.Signals) -> None:
    process = start()
    process.send_signal(number)
    process.send_signal(number)  # an echo, as `timeout` sends it
    output, errors = process.communicate(timeout=20)
    assert (process.returncode, output, errors) == (
        0,
        "closed second\nclosed first\n",
        "",
    )


def test_asked_twice_it_ends_at_once() -> None:
    process = start("second")
    process.terminate()
    assert process.stdout is not None
    assert process.stdout.readline() == "closed second\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(REPEAT_S + 0.2)
    process.terminate()
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, "asked twice" in errors) == (INTERRUPTED, True)


@pytest.mark.parametrize(
    ("word", "code", "text"),
    [
        ("fail", os.EX_IOERR, "fdatasync: EIO"),
        ("index", os.EX_IOERR, "the index d/txn has failed"),
        ("break", 1, "a bug"),
    ],
)
def test_a_failed_part_ends_the_process(word: str, code: int, text: str) -> None:
    process = start(word)
    output, errors = process.communicate(timeout=20)
    assert (process.returncode, output) == (code, "")
    assert errors.startswith("error: ")
    assert text in errors
