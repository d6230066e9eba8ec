"""/proc of this very process."""

import os
import subprocess
import sys

from halfpast_loadtest.process_tree import (
    command_line,
    is_alive,
    kill_all,
    tree_of,
    usage_of,
)

NO_PID = 2**22 + 1  # above the kernel's largest


def test_this_process_is_alive_and_uses_memory() -> None:
    usage = usage_of([os.getpid()])
    assert is_alive(os.getpid())
    assert usage.process_count == 1
    assert usage.rss_mb > usage.anonymous_mb > 5
    assert usage.cpu_s > 0


def test_a_tree_begins_with_its_root_and_knows_children() -> None:
    assert tree_of(os.getpid())[0] == os.getpid()
    assert os.getpid() in tree_of(os.getppid())


def test_the_command_line_is_split() -> None:
    program = "import sys; print(flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "a word"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    assert command_line(process.pid) == [sys.executable, "-c", program, "a word"]
    process.communicate()


def test_a_process_that_is_gone_has_nothing() -> None:
    assert not is_alive(NO_PID)
    assert tree_of(NO_PID) == []
    assert command_line(NO_PID) == []
    assert usage_of([NO_PID]).process_count == 0
    kill_all([NO_PID])  # and killing it is no error
