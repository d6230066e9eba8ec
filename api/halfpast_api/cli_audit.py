"""audit run, stream: were the promises kept, from the log itself."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from halfpast_api import cli_audit_export, cli_audit_prune, cli_audit_results
from halfpast_api.cli_audit_prune import KEEP, KEEP_ROWS, Keep, KeepRows
from halfpast_api.cli_audit_view import print_run
from halfpast_api.cli_output import AsJson, print_json, print_line
from halfpast_api.cli_serve_options import Data, Metadata

Spark = Annotated[
    str,
    typer.Option(
        "--master",
        envvar="HALFPAST_SPARK_MASTER",
        help="local[2], spark://HOST:PORT, or sc://HOST:PORT for Spark Connect.",
    ),
]
Memory = Annotated[
    str, typer.Option(help="Memory of a Spark that is started here, such as 4g.")
]
Export = Annotated[
    Path | None,
    typer.Option(
        "--export",
        envvar="HALFPAST_AUDIT_EXPORT",
        help="Where the events have been exported to.",
        show_default="DATA/audit/events",
    ),
]
Window = Annotated[str, typer.Option(help="How long a window is.")]
Grace = Annotated[
    str, typer.Option(help="How late a message may be before it is lost.")
]
Rules = Annotated[
    Path | None, typer.Option(help="SLAs and bounds, in TOML.", dir_okay=False)
]


class ReadFrom(StrEnum):
    """BOTH: what has been exported, and the rest from the log. AUTO: that, if there is
    an export, else the log."""

    AUTO = "auto"
    LOG = "log"
    PARQUET = "parquet"
    BOTH = "both"


def register(app: typer.Typer) -> None:
    """Add `audit` with its commands."""
    audit = typer.Typer(
        name="audit",
        help="Prove from the log what was kept: transactions, delays, deliveries.",
        no_args_is_help=True,
    )
    for command in (run, stream):
        audit.command()(command)
    cli_audit_results.register(audit)
    cli_audit_export.register(audit)
    cli_audit_prune.register(audit)
    app.add_typer(audit)


def run(
    data: Data = Path(".halfpast"),
    metadata: Metadata = None,
    export: Export = None,
    read: Annotated[
        ReadFrom, typer.Option(help="What to read; auto: the export and the rest.")
    ] = ReadFrom.AUTO,
    since: Annotated[
        str | None,
        typer.Option(
            "--from", help="A time, or a span such as 24h.", show_default="the start"
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--to", help="A time.", show_default="as far as the log is"),
    ] = None,
    window: Window = "5m",
    grace: Grace = "10s",
    rules: Rules = None,
    details: Annotated[
        Path | None,
        typer.Option(help="Where the tables by id go; 3 runs are kept."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Also write a report, an HTML file.", dir_okay=False),
    ] = None,
    keep: Keep = KEEP,
    keep_rows: KeepRows = KEEP_ROWS,
    master: Spark = "local[*]",
    memory: Memory = "2g",
    as_json: AsJson = False,
) -> None:
    """Audit the log and replace the results of these windows, all of them or none."""
    from halfpast_api.audits.guard import guarded
    from halfpast_api.audits.run import RunRequest, run_audit

    def action() -> None:
        request = RunRequest(
            data=data,
            metadata=metadata,
            export=export,
            read_from=read.value,
            since=since,
            until=until,
            window=window,
            grace=grace,
            rules=rules,
            details=details,
            report=report,
            keep=keep,
            keep_rows=keep_rows,
            master=master,
            memory=memory,
        )
        done = run_audit(request)
        print_json(done) if as_json else print_run(done)

    guarded(action, as_json=as_json)


def stream(
    data: Data = Path(".halfpast"),
    metadata: Metadata = None,
    window: Window = "5m",
    grace: Grace = "10s",
    memory_of: Annotated[
        str, typer.Option(help="For how long each message is remembered.")
    ] = "1h",
    every: Annotated[
        str, typer.Option(help="How often the counts are brought up to date.")
    ] = "500ms",
    rules: Rules = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="A folder of its own, to go on from.",
            show_default="DATA/audit/stream-WINDOW",
        ),
    ] = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="End when all has been counted.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Forget what was counted, begin anew.")
    ] = False,
    keep: Keep = KEEP,
    keep_rows: KeepRows = KEEP_ROWS,
    master: Spark = "local[2]",
    memory: Memory = "1g",
    as_json: AsJson = False,
) -> None:
    """Keep live counts, a second or two behind the log, until it is stopped.

    It goes on where it was, also after a crash. Runs are the authority: they
    also see what a stream cannot remember.
    """
    from halfpast_api.audits.guard import guarded
    from halfpast_api.audits.stream import StreamRequest, run_stream

    def action() -> None:
        request = StreamRequest(
            data=data,
            metadata=metadata,
            window=window,
            grace=grace,
            memory_of=memory_of,
            rules=rules,
            checkpoint=checkpoint,
            every=every,
            keep=keep,
            keep_rows=keep_rows,
            available_now=available_now,
            restart=restart,
            master=master,
            memory=memory,
        )
        seen = run_stream(request)
        if as_json:
            print_json(seen._asdict())
        else:
            print_line(f"{seen.events:,} events in {seen.batch_id + 1} batches")

    guarded(action, as_json=as_json)
