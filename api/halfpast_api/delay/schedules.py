"""Recurring schedules: make, look, change, pause, delete, and what comes next."""

import asyncio
from typing import Final

from msgspec import UNSET

from halfpast_api import headers
from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.delay.schedule_bodies import ScheduleBody, ScheduleChange
from halfpast_api.delay.schedule_message import changes_message, encode_message
from halfpast_api.delay.schedule_plan import plan_of
from halfpast_api.delay.schedule_view import (
    STATES,
    NextView,
    OccurrenceView,
    SchedulePageView,
    state_name,
    view_schedule,
)
from halfpast_api.event_id import id_text, parse_id
from halfpast_api.idempotency import REPLAYED, dedup_of
from halfpast_api.page_token import parse_token, render_token
from halfpast_api.problems import Refusal
from halfpast_api.publish import Source
from halfpast_api.reading import Reader
from halfpast_api.times import NS_PER_MS, render_instant
from halfpast_api.topic_directory import TopicDirectory
from halfpast_chronos.delay_server import DelayServer
from halfpast_chronos.errors import StaleVersion, UnknownSchedule
from halfpast_chronos.recurrence import Recurrence
from halfpast_chronos.recurring_calls import (
    ChangeSchedule,
    CreateSchedule,
    EndSchedule,
    GetSchedule,
    ListSchedules,
    PauseSchedule,
    Schedule,
    ScheduleState,
)
from halfpast_core_store.record import decode_record

_LIMIT_MAX: Final = 1000
_NEXT_MAX: Final = 1000
_NEXT_SLICE: Final = 20  # computed before others may work again
_ATTEMPTS: Final = 5  # at a change, while others change the same schedule

Headers = list[tuple[str, str]]


class ScheduleHandlers:
    """Handlers for recurring schedules."""

    def __init__(
        self,
        delay: DelayServer,
        directory: TopicDirectory,
        source: Source,
        depth_max: int,
    ) -> None:
        self._delay = delay
        self._directory = directory
        self._source = source
        self._create_reader = Reader(ScheduleBody, depth_max)
        self._change_reader = Reader(ScheduleChange, depth_max)

    async def create(self, call: Call) -> Answer:
        """POST /v1/schedules"""
        body = call.read(self._create_reader)
        seed = self._source.seed()
        dedup = dedup_of(call, "schedule", seed)
        plan = plan_of(body)
        call.check_topic(body.topic)
        topic = await self._directory.to_write(body.topic)
        now_ms = seed.accepted_ns // NS_PER_MS
        record = encode_message(body, None, topic, seed.base_id, now_ms, call.form)
        created = await self._delay.create_schedule(
            CreateSchedule(
                record=record,
                plan=plan,
                paused=body.paused is True,
                description="" if body.description is UNSET else body.description,
                dedup_key=dedup.key if dedup else b"",
                fingerprint=dedup.fingerprint if dedup else b"",
            )
        )
        shown = id_text(created.schedule.schedule_id)
        extra = [("Location", f"/v1/schedules/{shown}")]
        if created.replayed:
            extra.append(REPLAYED)
        return await self._answer(call, created.schedule, 201, extra)

    async def get(self, call: Call) -> Answer:
        """GET /v1/schedules/{id}"""
        return await self._answer(call, await self._find(call))

    async def list(self, call: Call) -> Answer:
        """GET /v1/schedules"""
        query = call.query("topic", "state", "limit", "page_token")
        topic_id = 0
        call.check_topic(query.text("topic"))
        if (name := query.text("topic")) is not None:
            topic_id = await self._directory.id_of(name)
        word = query.choice("state", "", ["", *sorted(STATES)])
        page = await self._delay.list_schedules(
            ListSchedules(
                topic_id=topic_id,
                state=STATES[word] if word else 0,
                limit=query.integer("limit", 100, 1, _LIMIT_MAX),
                after=parse_token(query.text("page_token")),
            )
        )
        ids = {it.progress.topic_id for it in page.schedules}
        names = await self._directory.names_of(ids)
        views = [
            view_schedule(it, names.get(it.progress.topic_id, ""), None)
            for it in page.schedules
        ]
        return call.answer(200, SchedulePageView(views, render_token(page.next_token)))

    async def change(self, call: Call) -> Answer:
        """PATCH /v1/schedules/{id}"""
        body = call.read(self._change_reader)
        expected = headers.if_match(call.headers)
        if body == ScheduleChange():
            raise Refusal("missing_field", "say what is to be changed, such as cron")
        for attempt in range(1, _ATTEMPTS + 1):
            before = await self._find(call)
            version = before.progress.version
            if expected not in (None, version):
                raise StaleVersion(id_text(before.schedule_id), version)
            request = await self._changed(call, body, before)
            try:
                return await self._answer(
                    call, await self._delay.change_schedule(request)
                )
            except StaleVersion:  # somebody else was faster
                if expected is not None or attempt == _ATTEMPTS:
                    raise
        raise AssertionError("not reached")

    async def pause(self, call: Call) -> Answer:
        """POST /v1/schedules/{id}:pause"""
        return await self._pause(call, True)

    async def resume(self, call: Call) -> Answer:
        """POST /v1/schedules/{id}:resume"""
        return await self._pause(call, False)

    async def delete(self, call: Call) -> Answer:
        """DELETE /v1/schedules/{id}"""
        request = EndSchedule(_id(call), headers.if_match(call.headers))
        await self._check(call)
        return await self._answer(call, await self._delay.end_schedule(request))

    async def next(self, call: Call) -> Answer:
        """GET /v1/schedules/{id}/next"""
        count = call.query("count").integer("count", 10, 1, _NEXT_MAX)
        schedule = await self._find(call)
        found: list[OccurrenceView] = []
        progress, plan = schedule.progress, schedule.progress.plan
        if progress.state != ScheduleState.ENDED:
            if plan.times:
                count = min(count, plan.times - progress.count)
            recurrence = Recurrence(plan)
            after_ms = max(self._source.now_ns() // NS_PER_MS, progress.last_nominal_ms)
            nominal = progress.nominal_ms or recurrence.after(after_ms)
            while nominal is not None and len(found) < count:
                number = progress.count + len(found) + 1
                due_ms = recurrence.due(schedule.schedule_id, nominal)
                at = render_instant(nominal) if plan.jitter_ms else None
                found.append(OccurrenceView(number, render_instant(due_ms), at))
                nominal = recurrence.after(nominal)
                if len(found) % _NEXT_SLICE == 0:
                    await asyncio.sleep(0)
        shown = id_text(schedule.schedule_id)
        return call.answer(200, NextView(shown, state_name(schedule), found))

    async def _changed(
        self, call: Call, body: ScheduleChange, before: Schedule
    ) -> ChangeSchedule:
        """What the request makes of a schedule."""
        progress = before.progress
        record = before.record
        assert record is not None, "the Delay Server shows it with its message"
        if changes_message(body):
            name = await self._directory.name_of(progress.topic_id)
            topic = await self._directory.to_write(name)
            now_ms = self._source.now_ns() // NS_PER_MS
            record = encode_message(
                body,
                decode_record(record),
                topic,
                before.schedule_id,
                now_ms,
                call.form,
            )
        described = body.description
        return ChangeSchedule(
            schedule_id=before.schedule_id,
            version=progress.version,
            plan=plan_of(body, progress.plan),
            record=record,
            description=progress.description if described is UNSET else described,
        )

    async def _pause(self, call: Call, paused: bool) -> Answer:
        request = PauseSchedule(_id(call), paused, headers.if_match(call.headers))
        await self._check(call)
        return await self._answer(call, await self._delay.pause_schedule(request))

    async def _find(self, call: Call) -> Schedule:
        """Raises UnknownSchedule, Refusal where the caller may not do this with it."""
        schedule_id = _id(call)
        got = await self._delay.get_schedule(GetSchedule(schedule_id))
        if got.schedule is None:
            raise UnknownSchedule(id_text(schedule_id))
        if not call.access.allows(call.verb):
            topic_id = got.schedule.progress.topic_id
            call.check_topic(await self._directory.name_of(topic_id))
        return got.schedule

    async def _check(self, call: Call) -> None:
        """Raise Refusal unless the caller may do this with the schedule."""
        if not call.access.allows(call.verb):
            await self._find(call)

    async def _answer(
        self,
        call: Call,
        schedule: Schedule,
        status: int = 200,
        extra: Headers | None = None,
    ) -> Answer:
        topic = await self._directory.name_of(schedule.progress.topic_id)
        view = view_schedule(schedule, topic, call.data_form)
        if call.data_form is None:
            view.data_withheld = True
        etag = ("ETag", f'"{view.version}"')
        return call.answer(status, view, [etag, *(extra or [])])


def _id(call: Call) -> bytes:
    """Raises Refusal."""
    try:
        return parse_id(call.parameters[0])
    except Refusal as refusal:
        shown = refusal.detail.partition(" is not ")[0]
        raise Refusal(
            "invalid_schedule_id",
            f"{shown} is not the id of a schedule; take the id that making it answered",
        ) from None
