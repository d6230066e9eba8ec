"""One import as the command makes it: from its file to its totals."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

import typer

import halfpast
from halfpast_api.cli_output import (
    REFUSED,
    UNKNOWN,
    UNREACHABLE,
    CommandFailed,
    print_json,
    print_line,
)
from halfpast_api.cli_server import retry_policy
from halfpast_api.transfer.chunk import RefusedLine, chunks
from halfpast_api.transfer.event_line import EventLines
from halfpast_api.transfer.file_format import STDIN, FileFormat
from halfpast_api.transfer.import_calls import ImportCalls
from halfpast_api.transfer.importer import Importer, rehearse
from halfpast_api.transfer.journal import ImportOptions, Journal
from halfpast_api.transfer.line import LineSource, Position
from halfpast_api.transfer.opening import open_source
from halfpast_api.transfer.progress import Counts
from halfpast_api.transfer.transfer_bar import TransferBar

PATIENCE_S: Final = 120.0
UNREACHABLE_S: Final = 30.0  # long enough for a server that is being restarted
SHOWN_MAX: Final = 20


class ImportRun:
    """Raises TransferError, HalfpastError, Refusal (for the default topic) and
    CommandFailed."""

    def __init__(
        self, name: str, options: ImportOptions, *, skips_bad: bool, as_json: bool
    ) -> None:
        self._name = name
        self._options = options
        self._skips_bad = skips_bad
        self._as_json = as_json
        self._reader = EventLines(options.topic)

    def rehearse(self, file: BinaryIO) -> None:
        """Look at every line and send nothing."""
        source = self._source(file)
        with View(source, "checking") as view:
            counts = rehearse(chunks(source, self._reader, Position(), 0), view)
        if self._as_json:
            good, bad = counts.stored, counts.refused
            print_json({"lines": counts.lines, "good": good, "refused": bad})
        else:
            print_line(f"{_events(counts.stored)} could be sent; nothing was")
        if counts.refused:
            raise CommandFailed(
                f"{_events(counts.refused)} would be refused",
                hint="mend the file, or import the others with --skip-bad",
            )

    def send(self, file: BinaryIO) -> None:
        """Send what was not sent yet."""
        source = self._source(file)
        if self._name == STDIN:
            journal = Journal.of_pipe(self._options)
        else:
            journal = Journal.of_file(Path(self._name), file, self._options)
        progress = journal.progress
        if progress.is_complete:
            typer.echo("imported already; nothing to do (or use --restart)", err=True)
            self._tell(journal)
            return
        if progress.position.line:
            typer.echo(f"going on behind line {progress.position.line:,}", err=True)
        is_sending = False
        try:
            asyncio.run(self._knock())
            is_sending = True
            asyncio.run(self._send(source, journal))
        except halfpast.HalfpastError as error:
            if not is_sending:
                raise
            raise self._interrupted(error, journal) from error
        except KeyboardInterrupt:
            again = "" if self._name == STDIN else "; to go on, run this again"
            typer.echo(f"interrupted{again}", err=True)
            raise
        finally:
            if is_sending:
                self._tell(journal)
        if journal.refused.count and not self._skips_bad:
            raise self._stopped(journal)

    async def _knock(self) -> None:
        """Find out soon, if nobody is there at all."""
        async with ImportCalls(self._options.server, retry_policy()) as calls:
            await calls.knock()

    async def _send(self, source: LineSource, journal: Journal) -> None:
        policy = halfpast.RetryPolicy(
            total_s=PATIENCE_S, attempt_s=UNREACHABLE_S, unreachable_s=UNREACHABLE_S
        )
        progress = journal.progress
        start = progress.position
        with View(source, "importing", progress.counts, start.offset) as view:
            async with ImportCalls(self._options.server, policy) as calls:
                found = chunks(source, self._reader, start, progress.chunk)
                importer = Importer(
                    calls,
                    found,
                    journal,
                    view,
                    end=source.size,
                    skips_bad=self._skips_bad,
                )
                try:
                    await importer.run()
                finally:
                    source.stop()

    def _source(self, file: BinaryIO) -> LineSource:
        return open_source(self._name, file, FileFormat(self._options.format))

    def _tell(self, journal: Journal) -> None:
        """The totals, of all runs together."""
        progress = journal.progress
        counts = progress.counts
        refused = str(journal.refused.path) if counts.refused else None
        if self._as_json:
            print_json(
                {
                    "complete": progress.is_complete,
                    "line": progress.position.line,
                    "stored": counts.stored,
                    "scheduled": counts.scheduled,
                    "recognised": counts.recognised,
                    "refused": counts.refused,
                    "refused_file": refused,
                }
            )
            return
        text = (
            f"imported {_events(counts.taken)} of {counts.lines:,} lines: "
            f"{counts.scheduled:,} scheduled, {counts.stored:,} stored at once"
        )
        if counts.recognised:
            text += f"; {counts.recognised:,} of them had been sent before"
        print_line(text)
        if refused:
            print_line(f"refused {_events(counts.refused)}, kept in {refused}")

    def _stopped(self, journal: Journal) -> CommandFailed:
        mend = f"mend what is in {journal.refused.path}, and import that file"
        line = journal.progress.position.line
        if journal.progress.is_complete:
            return CommandFailed("events were refused, all others are in", hint=mend)
        rest = "run this again, which goes on there"
        if self._name == STDIN:
            rest = f"import what comes behind line {line:,}"
        return CommandFailed(
            f"stopped behind line {line:,}, since events were refused",
            hint=f"{rest} (with --skip-bad it does not stop); then {mend}",
        )

    def _interrupted(
        self, error: halfpast.HalfpastError, journal: Journal
    ) -> CommandFailed:
        line = journal.progress.position.line
        code = REFUSED
        if isinstance(error, halfpast.OutcomeUnknown):
            code = UNKNOWN
        elif isinstance(error, halfpast.ServerUnreachable):
            code = UNREACHABLE
        hint = (
            f"run this again: it goes on behind line {line:,}, and adds nothing twice"
        )
        if self._name == STDIN:
            hint = f"the lines up to {line:,} are in, some behind that may be"
        return CommandFailed(str(error), code=code, hint=hint)


class View:
    """Shows how far an import is, and the first of the refused events."""

    def __init__(
        self,
        source: LineSource,
        what: str,
        counts: Counts | None = None,
        offset: int = 0,
    ) -> None:
        self._bar = TransferBar(what, source.size, offset)
        self._shown = 0
        self.moved(counts or Counts(), offset)

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.__exit__(kind, error, trace)

    def moved(self, counts: Counts, offset: int) -> None:
        note = f"{counts.taken:,} events"
        if counts.refused:
            note += f", {counts.refused:,} refused"
        self._bar.move(offset, note)

    def refused(self, lines: Sequence[RefusedLine]) -> None:
        for line in lines:
            self._shown += 1
            if self._shown <= SHOWN_MAX:
                self._bar.tell(f"line {line.line}: {line.reason} ({line.code})")
            elif self._shown == SHOWN_MAX + 1:
                self._bar.tell("… and more")


def _events(count: int) -> str:
    return f"{count:,} event" if count == 1 else f"{count:,} events"
