"""Watching an operation, with a bar where somebody sits at a terminal."""

import asyncio

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

import halfpast

POLL_S = 0.1


async def watch(
    client: halfpast.Client, operation: halfpast.Operation, shows_progress: bool
) -> halfpast.Operation:
    """The operation when it has ended."""
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[changed]} changed"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=not shows_progress,
        transient=True,
    )
    with progress:
        task = progress.add_task(
            operation.action, total=operation.expected, changed=operation.changed
        )
        while operation.state is halfpast.OperationState.RUNNING:
            await asyncio.sleep(POLL_S)
            operation = await client.operation(operation.id)
            progress.update(
                task,
                total=operation.expected,
                completed=operation.scanned,
                changed=operation.changed,
            )
    return operation
