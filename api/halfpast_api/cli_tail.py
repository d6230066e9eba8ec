"""tail: watch what is delivered to a topic.

Without --group it reads every queue by offset, from the end on, and so disturbs no
consumer. With --group it takes part in the group: what it shows is acknowledged.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from halfpast_api.cli_output import AsJson, print_json, print_line
from halfpast_api.cli_server import DEFAULT_SERVER, Server, with_client
from halfpast_api.cli_times import show_moment, show_span

if TYPE_CHECKING:
    import halfpast

Show = Callable[["halfpast.Message"], None]
POLL = timedelta(seconds=20)
LOOK_AGAIN_S = 0.5


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(tail)


def tail(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    group: Annotated[
        str | None, typer.Option(help="Take part in this consumer group.")
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Begin with the oldest that is kept.")
    ] = False,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="End after so many.")
    ] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Show each delivery, and how late it was. Ends with Ctrl-C."""

    async def work(client: "halfpast.Client") -> None:
        shown = asyncio.Event()
        left = count

        def show(message: "halfpast.Message") -> None:
            nonlocal left
            if shown.is_set():
                return
            print_json(message) if as_json else print_line(delivery_line(message))
            if left is not None:
                left -= 1
                if left == 0:
                    shown.set()

        reading = asyncio.create_task(
            follow_topic(client, topic, show, from_start=from_start)
            if group is None
            else follow_group(client, group, topic, show)
        )
        waiting = asyncio.create_task(shown.wait())
        await asyncio.wait((reading, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        reading.cancel()
        await asyncio.wait((reading,))
        if not reading.cancelled():
            reading.result()

    with_client(server, work, as_json=as_json, patience_s=60.0)


async def follow_topic(
    client: "halfpast.Client", topic: str, show: Show, *, from_start: bool
) -> None:
    """Show what comes into any queue of the topic; waits for one that is not there."""
    import halfpast

    waited = False
    while True:
        try:
            described = await client.topic(topic)
            break
        except halfpast.NotFound:
            if not waited:
                typer.echo(f"topic {topic} is empty so far; waiting", err=True)
            waited = True
            await asyncio.sleep(LOOK_AGAIN_S)
    # Whoever waited for the topic wants to see its first message.
    begin = from_start or waited
    async with asyncio.TaskGroup() as reading:
        for queue in described.queues:
            offset = queue.min_offset if begin else queue.max_offset
            reading.create_task(_follow_queue(client, topic, queue.queue, offset, show))


async def follow_group(
    client: "halfpast.Client", group: str, topic: str, show: Show
) -> None:
    """Show and acknowledge what the group gets."""
    while True:
        messages = await client.pop(group, topic, wait=POLL)
        for message in messages:
            show(message)
        await client.ack(group, messages)


def delivery_line(message: "halfpast.Message") -> str:
    """One delivery for people: when, how late, what."""
    import msgspec

    at = show_moment(message.stored_at) if message.stored_at else ""
    late = message.lateness
    lateness = "at once" if late is None else f"late by {show_span(late)}"
    labels = [f"key={message.key}"] if message.key else []
    labels += [f"tag={message.tag}"] if message.tag else []
    labels += [f"attempt={message.attempt}"] if message.attempt > 1 else []
    data = msgspec.json.encode(message.data).decode()
    return "  ".join([at, "delivered", f"{lateness:<15}", message.id, *labels, data])


async def _follow_queue(
    client: "halfpast.Client", topic: str, queue: int, offset: int, show: Show
) -> None:
    while True:
        page = await client.pull(topic, queue, offset, max_messages=100, wait=POLL)
        for message in page.messages:
            show(message)
        offset = page.next_offset
