"""due: what is coming and what is late, as a histogram in the terminal."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from halfpast_api.cli_candidates import topics
from halfpast_api.cli_output import AsJson, print_json, print_line
from halfpast_api.cli_server import DEFAULT_SERVER, Server, with_client
from halfpast_api.cli_times import parse_moment, show_moment

if TYPE_CHECKING:
    import halfpast

BAR_WIDTH = 40
EIGHTHS = " ▏▎▍▌▋▊▉█"


class Length(StrEnum):
    """How long a bucket is."""

    SECOND = "1s"
    MINUTE = "1m"
    HOUR = "1h"
    DAY = "1d"


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(due)


def due(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="[TOPIC]", help="All, if none is named.", autocompletion=topics
        ),
    ] = None,
    resolution: Annotated[
        Length, typer.Option(help="How much time a line stands for.")
    ] = Length.MINUTE,
    start: Annotated[
        str | None, typer.Option("--from", help="A time; now, if none is given.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="A time.")] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Show how many events are due when, and what is late and why."""

    async def work(client: "halfpast.Client") -> "halfpast.DueHistogram":
        import halfpast

        return await client.due(
            topic,
            resolution=halfpast.Resolution(resolution.value),
            start=None if start is None else parse_moment(start),
            end=None if end is None else parse_moment(end),
        )

    found = with_client(server, work, as_json=as_json)
    print_json(found) if as_json else _print_histogram(found)


def _print_histogram(found: "halfpast.DueHistogram") -> None:
    whose = "all topics" if found.topic is None else f"topic {found.topic}"
    about = "" if found.exact else "about "
    print_line(f"{about}{found.pending:,} pending in {whose}")
    if found.late:
        print_line(f"{about}{found.late:,} late")
        for topic in found.late_topics:
            why = ", ".join(f"{n:,} {reason}" for reason, n in topic.reasons.items())
            since = topic.oldest_due_at
            print_line(
                f"  {topic.topic}: {why}"
                + (f", the oldest since {show_moment(since)}" if since else "")
            )
    span = f"{show_moment(found.start)} to {show_moment(found.end)}"
    print_line(f"{found.count:,} due from {span}, by {found.resolution.value}")
    most = max((bucket.count for bucket in found.buckets), default=0)
    plain = not _takes_blocks()
    for bucket in found.buckets:
        bar = _bar(bucket.count / most, plain)
        print_line(f"{show_moment(bucket.at)[:-5]}  {bucket.count:>10,}  {bar}")


def _bar(share: float, plain: bool) -> str:
    if plain:
        return "#" * max(1, round(share * BAR_WIDTH))
    eighths = max(1, round(share * BAR_WIDTH * 8))
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def _takes_blocks() -> bool:
    try:
        EIGHTHS.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
