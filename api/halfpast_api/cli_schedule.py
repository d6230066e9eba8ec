"""schedule create, list, show, next, pause, resume, delete: what recurs."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from halfpast_api.cli_candidates import topics
from halfpast_api.cli_events import DataKind, read_data, read_property
from halfpast_api.cli_names import TopicName
from halfpast_api.cli_output import AsJson, print_json, print_line, print_table
from halfpast_api.cli_server import DEFAULT_SERVER, Server, with_client
from halfpast_api.cli_times import parse_moment, parse_span, show_moment, show_span

if TYPE_CHECKING:
    import halfpast

ScheduleId = Annotated[
    str, typer.Argument(metavar="ID", help="As 'schedule create' or 'list' told it.")
]
Instant = Annotated[str | None, typer.Option(help="A time: 2026-11-20T18:00:00Z.")]
PAGE_SIZE_MAX = 1000


def register(app: typer.Typer) -> None:
    """Add `schedule` with its commands."""
    schedule = typer.Typer(
        name="schedule",
        help="Recurring schedules: cron, interval, exponential back-off.",
        no_args_is_help=True,
    )
    schedule.command("list")(list_schedules)
    schedule.command("next")(next_times)
    for command in (create, show, pause, resume, delete):
        schedule.command()(command)
    app.add_typer(schedule)


def create(
    topic: TopicName,
    data: Annotated[
        str | None, typer.Argument(metavar="[DATA|-]", help="- reads standard input.")
    ] = None,
    cron: Annotated[
        str | None, typer.Option(help="Such as '30 2 * * MON-FRI' or @daily.")
    ] = None,
    time_zone: Annotated[
        str | None, typer.Option(help="Of --cron: Europe/Berlin. Else UTC.")
    ] = None,
    every: Annotated[str | None, typer.Option(help="An interval: 15m, 1d.")] = None,
    backoff: Annotated[
        str | None, typer.Option(help="The first pause; each doubles: 1s.")
    ] = None,
    backoff_max: Annotated[
        str | None, typer.Option(help="The longest such pause: 1h.")
    ] = None,
    start_at: Instant = None,
    until: Instant = None,
    times: Annotated[int | None, typer.Option(help="So often, then it ends.")] = None,
    jitter: Annotated[
        str | None, typer.Option(help="Each up to this much later: 30s.")
    ] = None,
    catch_up: Annotated[
        str, typer.Option(help="After an outage: fire_once, fire_all or skip.")
    ] = "fire_once",
    paused: Annotated[bool, typer.Option(help="Begin with 'schedule resume'.")] = False,
    key: Annotated[str | None, typer.Option()] = None,
    tag: Annotated[str | None, typer.Option()] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE")
    ] = None,
    kind: Annotated[DataKind, typer.Option("--as", help="What DATA is.")] = (
        DataKind.AUTO
    ),
    description: Annotated[str, typer.Option()] = "",
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Deliver DATA to TOPIC again and again."""

    def options() -> "halfpast.ScheduleOptions":
        import halfpast

        found = halfpast.ScheduleOptions(
            start_at=_moment(start_at),
            until=_moment(until),
            times=times,
            jitter=_span(jitter),
            catch_up=halfpast.CatchUp(catch_up),
            description=description,
            key=key,
            tag=tag,
            properties=dict(read_property(text) for text in properties or []),
        )
        found.update(_rule(cron, time_zone, every, backoff, backoff_max))
        return found

    async def work(client: "halfpast.Client") -> "halfpast.Schedule":
        return await client.create_schedule(
            topic, read_data(data, kind), paused=paused, **options()
        )

    _print_done("created", with_client(server, work, as_json=as_json), as_json)


def list_schedules(
    topic: Annotated[str | None, typer.Option(autocompletion=topics)] = None,
    state: Annotated[
        str | None, typer.Option(help="active, paused or ended; else all.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """List schedules in the order in which they were made."""

    async def work(client: "halfpast.Client") -> "list[halfpast.Schedule]":
        import halfpast

        found: list[halfpast.Schedule] = []
        schedules = client.schedules(
            topic=topic,
            state=None if state is None else halfpast.ScheduleState(state),
            page_size=min(limit, PAGE_SIZE_MAX),
        )
        async for schedule in schedules:
            found.append(schedule)
            if len(found) == limit:
                break
        return found

    found = with_client(server, work, as_json=as_json)
    if as_json:
        for schedule in found:
            print_json(schedule)
    elif not found:
        print_line("no schedules")
    else:
        rows = [
            [it.id, it.state.value, it.topic, rule_text(it), _next(it)] for it in found
        ]
        print_table(["id", "state", "topic", "when", "next"], rows)
        if len(found) == limit:
            typer.echo(f"the first {limit}; more with --limit", err=True)


def show(
    schedule_id: ScheduleId, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Show a schedule: when, what, and how far it has come."""
    schedule = with_client(
        server, lambda client: client.get_schedule(schedule_id), as_json=as_json
    )
    print_json(schedule) if as_json else _print_schedule(schedule)


def next_times(
    schedule_id: ScheduleId,
    count: Annotated[int, typer.Option(min=1, max=1000)] = 10,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Show when it occurs next; if it is paused, as if it were resumed now."""
    found = with_client(
        server,
        lambda client: client.next_occurrences(schedule_id, count=count),
        as_json=as_json,
    )
    for it in found:
        if as_json:
            print_json(it)
        else:
            print_line(f"{it.number:>6}  {show_moment(it.at)}")
    if not found and not as_json:
        typer.echo("it occurs no more", err=True)


def pause(
    schedule_id: ScheduleId, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Let a schedule rest."""
    done = with_client(
        server, lambda client: client.pause_schedule(schedule_id), as_json=as_json
    )
    _print_done("paused", done, as_json)


def resume(
    schedule_id: ScheduleId, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Let it go on with what comes after now."""
    done = with_client(
        server, lambda client: client.resume_schedule(schedule_id), as_json=as_json
    )
    _print_done("resumed", done, as_json)


def delete(
    schedule_id: ScheduleId, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """End it for good; what it has delivered stays delivered."""
    done = with_client(
        server, lambda client: client.delete_schedule(schedule_id), as_json=as_json
    )
    _print_done("deleted", done, as_json)


def rule_text(schedule: "halfpast.Schedule") -> str:
    """When it occurs, in a few words."""
    if schedule.cron is not None:
        return f"{schedule.cron}  {schedule.time_zone}"
    if schedule.interval is not None:
        return f"every {show_span(schedule.interval)}"
    growing = schedule.exponential
    if growing is None:
        return ""
    text = f"after {show_span(growing.first)}, then {growing.factor:g} times as long"
    if growing.longest is not None:
        text += f", at most {show_span(growing.longest)}"
    return text


def _rule(
    cron: str | None,
    time_zone: str | None,
    every: str | None,
    backoff: str | None,
    backoff_max: str | None,
) -> "halfpast.ScheduleOptions":
    """When it occurs, from the options that say so."""
    import halfpast

    found = halfpast.ScheduleOptions()
    if cron is not None:
        found["cron"] = cron
    if time_zone is not None:
        found["time_zone"] = time_zone
    if every is not None:
        found["interval"] = parse_span(every)
    if backoff is not None:
        found["exponential"] = halfpast.Exponential(
            first=parse_span(backoff), longest=_span(backoff_max)
        )
    return found


def _print_done(verb: str, schedule: "halfpast.Schedule", as_json: bool) -> None:
    if as_json:
        print_json(schedule)
    else:
        print_line(f"{verb:<9}  {schedule.id}  next {_next(schedule)}")


def _print_schedule(schedule: "halfpast.Schedule") -> None:
    print_line(f"{schedule.state.value:<9}  {schedule.id}  topic {schedule.topic}")
    if schedule.description:
        print_line(f"  {schedule.description}")
    print_line(f"  when        {rule_text(schedule)}")
    for name, moment in (
        ("start", schedule.start_at),
        ("until", schedule.until),
        ("next", schedule.next_at),
        ("last", schedule.last_at),
        ("skipped", schedule.skipped_at),
        ("ended", schedule.ended_at),
    ):
        if moment is not None:
            print_line(f"  {name:<10}  {show_moment(moment)}")
    times = "" if schedule.times is None else f" of {schedule.times}"
    print_line(f"  occurred    {schedule.occurrences}{times}")
    if schedule.jitter is not None:
        print_line(f"  jitter      {show_span(schedule.jitter)}")
    print_line(f"  catch up    {schedule.catch_up.value}")
    if schedule.reason:
        print_line(f"  reason      {schedule.reason}")
    print_line(f"  data        {schedule.data!r}")


def _next(schedule: "halfpast.Schedule") -> str:
    return "never" if schedule.next_at is None else show_moment(schedule.next_at)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else parse_moment(text)


def _span(text: str | None) -> timedelta | None:
    return None if text is None else parse_span(text)
