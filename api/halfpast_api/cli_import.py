"""import: events from a file, NDJSON or Parquet, into a server."""

from typing import TYPE_CHECKING, Annotated

import typer

from halfpast_api.cli_candidates import topics
from halfpast_api.cli_output import STORE_FAILED, USAGE, AsJson, CommandFailed
from halfpast_api.cli_server import DEFAULT_SERVER, Server, guarded
from halfpast_api.transfer.file_format import STDIN, FileFormat

if TYPE_CHECKING:
    from halfpast_api.transfer.journal import ImportOptions


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("import")(import_events)


def import_events(
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="- reads standard input.")
    ],
    topic: Annotated[
        str | None,
        typer.Option(help="For events that do not name one.", autocompletion=topics),
    ] = None,
    file_format: Annotated[
        FileFormat | None,
        typer.Option("--format", help="If the name of the file does not tell."),
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option("--skip-bad", help="Go on behind events that are refused."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Look for what is wrong; send nothing.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin at line 1, whatever was sent.")
    ] = False,
    after_all: Annotated[
        bool,
        typer.Option("--after-all", help="Go on after more than a day, too."),
    ] = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Publish the events of a file: one JSON object a line, or Parquet.

    Each has a topic, data or data_base64, and if you like key, tag,
    properties and one of deliver_at, delay and delay_ms. If it is
    interrupted, even killed, run it again: it goes on where it was, and
    adds no event twice. What is refused is kept in FILE.refused.ndjson,
    to be mended and imported.
    """
    from halfpast_api.transfer.journal import ImportOptions

    options = ImportOptions(
        server=server,
        topic=topic,
        format=FileFormat.of(file, file_format).value,
        restarts=restart,
        goes_on_after_all=after_all,
    )
    guarded(
        lambda: _run(file, options, dry_run, skips_bad=skip_bad, as_json=as_json),
        server=server,
        as_json=as_json,
    )


def _run(
    file: str,
    options: "ImportOptions",
    is_rehearsal: bool,
    *,
    skips_bad: bool,
    as_json: bool,
) -> None:
    from halfpast_api.problems import Refusal
    from halfpast_api.transfer.errors import TransferError
    from halfpast_api.transfer.import_run import ImportRun
    from halfpast_api.transfer.opening import standard_input

    try:
        run = ImportRun(file, options, skips_bad=skips_bad, as_json=as_json)
        work = run.rehearse if is_rehearsal else run.send
        if file == STDIN:
            work(standard_input())
            return
        with open(file, "rb") as opened:
            work(opened)
    except TransferError as error:
        raise CommandFailed(str(error), hint=error.hint) from error
    except Refusal as refusal:
        raise CommandFailed(refusal.detail, code=USAGE) from refusal
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        why = f"{error.filename}: {error.strerror}"
        raise CommandFailed(why, code=USAGE) from error
    except OSError as error:
        raise CommandFailed(str(error), code=STORE_FAILED) from error
