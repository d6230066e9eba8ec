"""One export as the command makes it: from the server's pages to a file."""

import asyncio
import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import typer

import halfpast
from halfpast_api.cli_output import print_json
from halfpast_api.cli_server import retry_policy
from halfpast_api.transfer.errors import WouldOverwrite, WrongFormat
from halfpast_api.transfer.event_writer import EventWriter, NdjsonWriter, ParquetWriter
from halfpast_api.transfer.file_format import FileFormat
from halfpast_api.transfer.pending_pages import PendingPages
from halfpast_api.transfer.transfer_bar import TransferBar

PATIENCE_S: Final = 60.0
PART: Final = ".part"


class ExportRun:
    """`output` None means standard output. Raises TransferError, HalfpastError."""

    def __init__(
        self,
        output: Path | None,
        file_format: FileFormat,
        *,
        with_ids: bool,
        overwrites: bool,
    ) -> None:
        if output is None and file_format is FileFormat.PARQUET:
            hint = "name a file with --output"
            raise WrongFormat("standard output", "takes no Parquet", hint)
        if output is not None and output.exists() and not overwrites:
            raise WouldOverwrite(output, "name another file, or give --overwrite")
        self._output = output
        self._format = file_format
        self._with_ids = with_ids

    def run(self, server: str, filters: Mapping[str, str], *, as_json: bool) -> None:
        """Write what is pending, and tell how much that was."""
        asyncio.run(self._knock(server))
        with _target(self._output) as file, TransferBar("exporting", None) as bar:
            writer = self._writer(file)
            count = asyncio.run(self._write(server, filters, writer, bar))
            writer.close()
        where = "standard output" if self._output is None else str(self._output)
        if as_json and self._output is not None:
            print_json({"exported": count, "file": where})
        else:
            typer.echo(f"exported {count:,} pending events to {where}", err=True)

    async def _knock(self, server: str) -> None:
        async with PendingPages(server, retry_policy()) as calls:
            await calls.knock()

    async def _write(
        self,
        server: str,
        filters: Mapping[str, str],
        writer: EventWriter,
        bar: TransferBar,
    ) -> int:
        count = 0
        policy = halfpast.RetryPolicy(total_s=PATIENCE_S, attempt_s=PATIENCE_S)
        async with PendingPages(server, policy) as calls:
            async for page in calls.pages(filters):
                writer.write(page)
                count += len(page)
                if page:
                    until = page[-1].deliver_at
                    bar.move(count, f"{count:,} events, due until {until}")
        return count

    def _writer(self, file: BinaryIO) -> EventWriter:
        if self._format is FileFormat.PARQUET:
            return ParquetWriter(file, with_ids=self._with_ids)
        return NdjsonWriter(file, with_ids=self._with_ids)


@contextmanager
def _target(output: Path | None) -> Generator[BinaryIO]:
    """A file that gets its name only when it is complete and on the disk."""
    if output is None:
        yield sys.stdout.buffer
        return
    part = output.with_name(output.name + PART)
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)
