"""Memory of processes, as the kernel divides it among them."""

import os

from halfpast_loadtest.process_memory import Memory, memory_of, parse_rollup

NO_PID = 2**22 + 1  # above the kernel's largest
TEXT = """\
556a44897000-7ffd37400000 ---p 00000000 00:00 0                          [rollup]
Rss:                4000 kB
Pss:                3000 kB
Pss_Anon:           2000 kB
Pss_File:           1000 kB
Private_Clean:       500 kB
Private_Dirty:      1500 kB
Locked:                0 kB
"""


def test_the_kernels_text_is_read_in_megabytes() -> None:
    assert parse_rollup(TEXT).shown("x_") == {
        "x_rss_mb": 4.1,
        "x_pss_mb": 3.1,
        "x_pss_anonymous_mb": 2.0,
        "x_uss_mb": 2.0,
    }


def test_this_process_has_its_parts_in_order() -> None:
    memory = memory_of([os.getpid()])
    assert 1 < memory.uss_mb <= memory.pss_mb + 0.1 <= memory.rss_mb + 0.2
    assert 1 < memory.pss_anonymous_mb <= memory.pss_mb


def test_processes_add_up_and_the_dead_weigh_nothing() -> None:
    one = parse_rollup(TEXT)
    assert (one + one).pss_mb == 2 * one.pss_mb
    assert sum([one, one], start=Memory()) == one + one
    assert memory_of([NO_PID]) == Memory()
