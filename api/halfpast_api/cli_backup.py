"""backup, restore: copies of a data folder while the suite runs, and the way back."""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halfpast_api.cli_output import (
    REFUSED,
    STORE_FAILED,
    USAGE,
    AsJson,
    CommandFailed,
    print_failure,
    print_json,
    print_line,
    print_table,
)

if TYPE_CHECKING:
    from halfpast_api.backup.manifest import BackupManifest
    from halfpast_api.backup.verification import ListedBackup

Data = Annotated[
    Path, typer.Option("--data", envvar="HALFPAST_DATA", help="The data folder.")
]
Folder = Annotated[Path, typer.Argument(help="The folder with the backups.")]

backup_app = typer.Typer(
    invoke_without_command=True,
    help="Copy a data folder, also while the suite runs on it.",
)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(backup_app, name="backup")
    app.command()(restore)


@backup_app.callback()
def backup(
    context: typer.Context,
    data: Data = Path(".halfpast"),
    to: Annotated[
        Path | None,
        typer.Option("--to", help="The folder for backups; not within the data."),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option("--keep", min=1, help="Delete all but the newest so many."),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="Copy all anew, also what has not changed."),
    ] = False,
    metadata: Annotated[
        str | None,
        typer.Option(
            "--metadata",
            envvar="HALFPAST_METADATA",
            help="The database of the settings, as the server was given it.",
            show_default="sqlite:///DATA/metadata.sqlite",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Copy a data folder, also while the suite runs on it.

    Everything acknowledged before the command began is in the backup. Files that do
    not change any more are copied once, so a second backup takes what is new.
    """
    if context.invoked_subcommand is not None:
        return
    with _failures(as_json):
        if to is None:
            raise CommandFailed(
                "a backup needs a place", code=USAGE, hint="halfpast backup --to FOLDER"
            )
        from halfpast_api.backup.backup_run import BackupOptions, back_up
        from halfpast_api.backup.watch import WatchBar

        options = BackupOptions(metadata=metadata, is_full=full, keep=keep)
        with WatchBar("backup") as bar:
            done = back_up(data, to, options, bar)
        manifest = done.manifest
        if as_json:
            print_json({**_summary(manifest), "copied": done.copied})
        else:
            _tell_backup(manifest, done.copied, to)
        if manifest.unsound:
            raise CommandFailed(
                f"damaged in {data} already, and copied as it is: "
                f"{', '.join(manifest.unsound)}",
                hint=f"halfpast doctor --data {data}; then take these files from an "
                "older backup",
            )


@backup_app.command("list")
def list_command(folder: Folder, as_json: AsJson = False) -> None:
    """Show the backups of a folder, the oldest first."""
    with _failures(as_json):
        from halfpast_api.backup.verification import list_backups

        listed = list_backups(folder)
        if as_json:
            for one in listed:
                print_json(_listed(one))
        elif not listed:
            print_line(f"no finished backup in {folder}")
        else:
            _print_listed(listed)


@backup_app.command()
def verify(
    folder: Folder,
    name: Annotated[
        str | None, typer.Option("--backup", help="Only this one.", metavar="ID")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read all bytes of the backups and compare their checksums."""
    with _failures(as_json):
        from halfpast_api.backup.verification import verify_backups
        from halfpast_api.backup.watch import WatchBar

        with WatchBar("verify") as bar:
            listed = verify_backups(folder, name, bar)
        for one in listed:
            if as_json:
                print_json(_listed(one))
            elif one.damaged:
                print_line(f"{one.name}  damaged: {', '.join(one.damaged)}")
            else:
                print_line(f"{one.name}  sound")
        if any(one.damaged for one in listed):
            raise typer.Exit(REFUSED)


def restore(
    source: Annotated[
        Path, typer.Option("--from", help="The folder with the backups.")
    ],
    data: Data = Path(".halfpast"),
    name: Annotated[
        str | None,
        typer.Option(
            "--backup", help="Which one.", show_default="the newest", metavar="ID"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a data folder from a backup. The folder must be new or empty."""
    with _failures(as_json):
        from halfpast_api.backup.restore_run import restore as restore_from
        from halfpast_api.backup.watch import WatchBar

        with WatchBar("restore") as bar:
            manifest = restore_from(source, data, name, bar)
        if as_json:
            print_json({**_summary(manifest), "data": data.absolute()})
            return
        print_line(
            f"{data} is as it was {_age(manifest)} ago, at {_shown(manifest)} "
            f"(backup {manifest.name}, store {manifest.store_id})"
        )
        print_line("What was published since is not in it, and what was delivered")
        print_line("since is delivered again. The old server must stay off.")
        _tell_metadata(manifest)
        print_line(f"Look at it with: halfpast doctor --data {data}")


@contextmanager
def _failures(as_json: bool) -> Generator[None]:
    from halfpast_api.backup.errors import BackupError, DamagedBackup

    try:
        yield
        return
    except BackupError as error:
        report = {"damaged": error.files} if isinstance(error, DamagedBackup) else None
        failed = CommandFailed(str(error), hint=error.hint, report=report)
    except OSError as error:
        failed = CommandFailed(
            f"{error.filename or 'a file'}: {error.strerror or error}",
            code=STORE_FAILED,
            hint="see to rights and room on both disks, then run it again; former "
            "backups are as they were",
        )
    except CommandFailed as error:
        failed = error
    print_failure(failed, as_json=as_json)
    raise typer.Exit(failed.code) from None


def _tell_backup(manifest: "BackupManifest", copied: int, to: Path) -> None:
    from halfpast_api.doctor import show_bytes

    print_line(
        f"backup {manifest.name} in {to}: {show_bytes(manifest.size)}, of which "
        f"{show_bytes(copied)} were copied now"
    )
    _tell_metadata(manifest)


def _tell_metadata(manifest: "BackupManifest") -> None:
    if manifest.metadata == "elsewhere":
        print_line(
            "The settings are in a database of their own and not in here: "
            "copy it too, with pg_dump."
        )


def _summary(manifest: "BackupManifest") -> dict[str, Any]:
    return {
        "backup": manifest.name,
        "store_id": manifest.store_id,
        "taken_at": datetime.fromtimestamp(manifest.taken_ms / 1000, UTC),
        "files": len(manifest.files),
        "size": manifest.size,
        "log_start": manifest.log_start,
        "log_end": manifest.log_end,
        "metadata": manifest.metadata,
        "damaged_originals": manifest.unsound,
    }


def _listed(one: "ListedBackup") -> dict[str, Any]:
    known = {"backup": one.name} if one.manifest is None else _summary(one.manifest)
    return {**known, "damaged": one.damaged}


def _print_listed(listed: "list[ListedBackup]") -> None:
    from halfpast_api.doctor import show_bytes

    rows: list[list[str]] = []
    for one in listed:
        known = one.manifest
        state = "whole"
        if known is not None and known.unsound:
            state = f"whole; the originals were damaged: {', '.join(known.unsound)}"
        if one.damaged:
            state = f"damaged: {', '.join(one.damaged)}"
        about = (
            ["?", "?", "?"]
            if known is None
            else [_shown(known), _age(known), show_bytes(known.size)]
        )
        rows.append([one.name, *about, state])
    print_table(["backup", "taken", "age", "size", "state"], rows)


def _shown(manifest: "BackupManifest") -> str:
    from halfpast_api.cli_times import show_moment

    return show_moment(datetime.fromtimestamp(manifest.taken_ms / 1000, UTC))


def _age(manifest: "BackupManifest") -> str:
    from halfpast_api.cli_times import show_span

    taken = datetime.fromtimestamp(manifest.taken_ms // 1000, UTC)
    now = datetime.now(UTC).replace(microsecond=0)
    return show_span(max(now - taken, now - now))
