"""tail: watch what is delivered to a topic.

Without --group it reads every queue by offset, from the end on, and so disturbs no
consumer. With --group it takes part in the group: what it shows is acknowledged.
"""

import asyncio
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Annotated

import typer

from halfpast_api.cli_candidates import groups
from halfpast_api.cli_names import TopicName
from halfpast_api.cli_output import AsJson, print_json, print_line
from halfpast_api.cli_server import DEFAULT_SERVER, Server, with_client
from halfpast_api.cli_times import show_moment, show_span

if TYPE_CHECKING:
    import halfpast

POLL = timedelta(seconds=20)
LOOK_AGAIN_S = 0.5


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(tail)


def tail(
    topic: TopicName,
    group: Annotated[
        str | None,
        typer.Option(help="Take part in this consumer group.", autocompletion=groups),
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

    view = View(count, as_json=as_json)

    async def work(client: "halfpast.Client") -> None:
        if group is not None:
            await follow_group(client, group, topic, view)
            return
        reading = asyncio.create_task(
            follow_topic(client, topic, view, from_start=from_start)
        )
        enough = asyncio.create_task(view.enough.wait())
        await asyncio.wait((reading, enough), return_when=asyncio.FIRST_COMPLETED)
        enough.cancel()
        if reading.done():
            reading.result()
        reading.cancel()

    with_client(server, work, as_json=as_json, patience_s=60.0)


class View:
    """What the user sees: at most `count` messages, None for no end."""

    def __init__(self, count: int | None, *, as_json: bool) -> None:
        self.enough = asyncio.Event()
        self._left = count
        self._as_json = as_json

    def wanted(self, most: int) -> int:
        """How many messages to ask for."""
        return most if self._left is None else min(most, self._left)

    def show(self, message: "halfpast.Message") -> None:
        if self.enough.is_set():
            return
        print_json(message) if self._as_json else print_line(delivery_line(message))
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self.enough.set()


async def follow_topic(
    client: "halfpast.Client", topic: str, view: View, *, from_start: bool
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
    offsets = {
        queue.queue: queue.min_offset if begin else queue.max_offset
        for queue in described.queues
    }
    away = _Away()
    await asyncio.gather(
        *(
            _follow_queue(client, topic, queue, offset, view, away)
            for queue, offset in offsets.items()
        )
    )


async def follow_group(
    client: "halfpast.Client", group: str, topic: str, view: View
) -> None:
    """Show and acknowledge what the group gets."""
    away = _Away()
    while not view.enough.is_set():
        with away:
            messages = await client.pop(
                group, topic, wait=POLL, max_messages=view.wanted(32)
            )
            for message in messages:
                view.show(message)
            await client.ack(group, messages)
        await away.pause()


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
    client: "halfpast.Client",
    topic: str,
    queue: int,
    offset: int,
    view: View,
    away: "_Away",
) -> None:
    while True:
        with away:
            page = await client.pull(topic, queue, offset, max_messages=100, wait=POLL)
            for message in page.messages:
                view.show(message)
            offset = page.next_offset
        await away.pause()


class _Away:
    """Waits out a server that is being restarted, once it has answered before."""

    def __init__(self) -> None:
        self._is_away = False

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        import halfpast

        was_away, self._is_away = self._is_away, False
        if not isinstance(error, halfpast.ServerUnreachable | halfpast.OutcomeUnknown):
            return False
        if not was_away:
            typer.echo(f"{error}; waiting", err=True)
        self._is_away = True
        return True

    async def pause(self) -> None:
        """Before the next try; no time at all if the server has answered."""
        if self._is_away:
            await asyncio.sleep(LOOK_AGAIN_S)
