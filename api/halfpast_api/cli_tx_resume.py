"""tx resume --all: every parked transaction of a producer group."""

import asyncio
from dataclasses import dataclass

from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

import halfpast
from halfpast_api.transaction_calls import TransactionCalls, TransactionView

PAGE_SIZE = 500
AT_ONCE = 32


@dataclass(slots=True, kw_only=True)
class Resumed:
    """What has been done. `passed_over` were decided by somebody else meanwhile."""

    resumed: int = 0
    passed_over: int = 0

    def __str__(self) -> str:
        text = f"resumed    {self.resumed:,}"
        if self.passed_over:
            text += f"  ({self.passed_over:,} were decided meanwhile)"
        return text


async def resume_all(
    calls: TransactionCalls, group: str, reason: str, by: str, shows_progress: bool
) -> Resumed:
    """Resume what is parked, several at a time; a failure ends it.

    To begin again is harmless: what has been resumed is no longer parked.
    """
    done = Resumed()
    places = asyncio.Semaphore(AT_ONCE)

    async def resume(view: TransactionView) -> None:
        async with places:
            try:
                await calls.resume(view.id, reason, by)
                done.resumed += 1
            except (halfpast.Conflict, halfpast.NotFound):
                done.passed_over += 1
        progress.update(task, completed=done.resumed)

    columns = (TextColumn("resumed {task.completed:,}"), TimeElapsedColumn())
    progress = Progress(
        *columns, console=Console(stderr=True), disable=not shows_progress
    )
    with progress:
        task = progress.add_task("resume", total=None)
        async for page in calls.pages("parked", group, PAGE_SIZE):
            try:
                async with asyncio.TaskGroup() as tasks:
                    for view in page:
                        tasks.create_task(resume(view))
            except ExceptionGroup as failed:
                raise failed.exceptions[0] from None
    return done
