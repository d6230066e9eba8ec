"""By which clock a server goes that is about to start: the machine's, or a virtual one.

A virtual clock is for tests on one machine, so whatever else it could be used for is
refused: other hosts, several processes, folders that live by real time.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfpast_api.cli_output import USAGE, CommandFailed
from halfpast_api.cli_serve_options import DATA

if TYPE_CHECKING:
    from halfpast_api.clock.clock_file import ClockFile

REAL, VIRTUAL = "real", "virtual"
VIRTUAL_DATA = Path(".halfpast-virtual")
"""Where data goes unless --data says otherwise: never into that of the real clock."""

Clock = Annotated[
    str,
    typer.Option(
        "--clock",
        envvar="HALFPAST_CLOCK",
        metavar="real|virtual",
        help="virtual: time stands still until 'halfpast clock advance'. For tests.",
    ),
]
NoClock = Annotated[str, typer.Option("--clock", envvar="HALFPAST_CLOCK", hidden=True)]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help="What a virtual clock shows at first, such as 2026-01-01T00:00Z.",
        show_default="where it stood; in a new folder, now",
    ),
]


def folder_of(clock: str, data: Path) -> Path:
    """The data folder that is meant."""
    return VIRTUAL_DATA if clock == VIRTUAL and data == DATA else data


def open_clock(clock: str, at: str | None, data: Path, host: str) -> "ClockFile | None":
    """The virtual clock of the folder, None for the machine's. A failure of the command
    where there must not be one."""
    from halfpast_api.access.site_guard import is_loopback

    if clock not in (REAL, VIRTUAL):
        raise CommandFailed(
            f"--clock {clock!r} is not known", code=USAGE, hint="--clock virtual"
        )
    if clock == REAL:
        if at is not None:
            raise CommandFailed(
                "--at sets a virtual clock; nobody sets the machine's",
                code=USAGE,
                hint=f"halfpast dev --clock virtual --at {at}",
            )
        return None
    if not is_loopback(host):
        raise CommandFailed(
            f"a virtual clock is for tests on this machine, and {host} is open to "
            "others",
            code=USAGE,
            hint="halfpast dev --clock virtual --host 127.0.0.1",
        )
    from halfpast_api.clock.clock_file import ClockFile

    return ClockFile.open(data, None if at is None else read_moment(at))


def refuse_clock(clock: str) -> None:
    """For what runs in several processes, each with a clock of its own."""
    if clock != REAL:
        raise CommandFailed(
            "a virtual clock is for tests, and needs all services in one process",
            code=USAGE,
            hint="halfpast dev --clock virtual",
        )


def clock_note(file: "ClockFile") -> str:
    """What the start says, loudly."""
    from halfpast_api.times import render_instant

    return f"VIRTUAL CLOCK: it is {render_instant(file.now_ms)}, and time stands still"


def read_moment(text: str) -> int:
    """A moment with its offset, as epoch ms. Raises ValueError with advice."""
    from halfpast_api.cli_times import parse_moment

    since = parse_moment(text) - datetime(1970, 1, 1, tzinfo=UTC)
    if since < timedelta(0):
        raise ValueError("clocks begin with 1970")
    return since // timedelta(milliseconds=1)
