"""export: what is pending on a server, into a file that import takes back."""

from pathlib import Path
from typing import Annotated

import typer

from halfpast_api.cli_candidates import topics
from halfpast_api.cli_output import STORE_FAILED, USAGE, AsJson, CommandFailed
from halfpast_api.cli_server import DEFAULT_SERVER, Server, guarded
from halfpast_api.cli_times import parse_moment
from halfpast_api.transfer.file_format import STDIN, FileFormat


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("export")(export_events)


def export_events(
    topic: Annotated[str | None, typer.Option(autocompletion=topics)] = None,
    key: Annotated[str | None, typer.Option()] = None,
    tag: Annotated[str | None, typer.Option()] = None,
    due_after: Annotated[str | None, typer.Option(help="A time.")] = None,
    due_before: Annotated[str | None, typer.Option(help="A time.")] = None,
    file_format: Annotated[
        FileFormat | None,
        typer.Option("--format", help="If the name of the file does not tell."),
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE|-", help="Where to.")
    ] = STDIN,
    with_ids: Annotated[
        bool,
        typer.Option("--with-ids", help="Also the ids, which import leaves out."),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace FILE if it is there.")
    ] = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Write the events that wait to be delivered, by due time, as NDJSON or Parquet.

    They stay where they are. Each is written once; one that is delivered
    meanwhile may be missing, and one that is moved to another time
    meanwhile may be missing or come twice.
    """
    from halfpast.request_body import rfc3339
    from halfpast_api.transfer.errors import TransferError
    from halfpast_api.transfer.export_run import ExportRun

    def moment(text: str | None) -> str | None:
        return None if text is None else rfc3339(parse_moment(text))

    def action() -> None:
        filters = {
            "topic": topic,
            "key": key,
            "tag": tag,
            "due_after": moment(due_after),
            "due_before": moment(due_before),
        }
        given = {name: value for name, value in filters.items() if value is not None}
        path = None if output == STDIN else Path(output)
        try:
            run = ExportRun(
                path,
                FileFormat.of(output, file_format),
                with_ids=with_ids,
                overwrites=overwrite,
            )
            run.run(server, given, as_json=as_json)
        except TransferError as error:
            raise CommandFailed(str(error), code=USAGE, hint=error.hint) from error
        except OSError as error:
            raise CommandFailed(str(error), code=STORE_FAILED) from error

    guarded(action, server=server, as_json=as_json)
