"""The Delay Server as one namespace sees it."""

from msgspec.structs import replace

from halfpast_api.access.owned_topics import OwnedTopics
from halfpast_api.event_id import id_text
from halfpast_api.problems import Refusal
from halfpast_chronos.delay_server import (
    Cancel,
    Cancelled,
    DelayServer,
    Event,
    EventPage,
    GetEvent,
    GotEvent,
    ListEvents,
    Replace,
    Replaced,
    Reschedule,
)
from halfpast_chronos.due_calls import AskDue, DueHistogram
from halfpast_chronos.errors import UnknownEvent, UnknownSchedule
from halfpast_chronos.operation import (
    BeginBulk,
    Begun,
    CancelOperation,
    GetOperation,
    ListOperations,
    Operation,
    OperationPage,
)
from halfpast_chronos.operation_errors import UnknownOperation
from halfpast_chronos.recurring_calls import (
    ChangeSchedule,
    CreatedSchedule,
    CreateSchedule,
    EndSchedule,
    GetSchedule,
    GotSchedule,
    ListSchedules,
    PauseSchedule,
    Schedule,
    SchedulePage,
)
from halfpast_chronos.release_calls import (
    AskTopics,
    ListDead,
    PendingCounts,
    Redrive,
    TopicStates,
)
from halfpast_core_store.broker import BrokerStatus, Empty

_ROUNDS = 20  # at a list, while others' things are met


class NamespacedDelay:
    """A `DelayServer` in which only what goes to one namespace's topics exists."""

    def __init__(self, delay: DelayServer, owned: OwnedTopics) -> None:
        self._delay = delay
        self._owned = owned

    # --- events -------------------------------------------------------------------

    async def cancel(self, request: Cancel) -> Cancelled:
        if not await self._has_event(request.event_id):
            return Cancelled("not_found")
        return await self._delay.cancel(request)

    async def reschedule(self, request: Reschedule) -> Event:
        await self._check_event(request.event_id)
        return await self._delay.reschedule(request)

    async def redrive(self, request: Redrive) -> Event:
        await self._check_event(request.event_id)
        return await self._delay.redrive(request)

    async def replace(self, request: Replace) -> Replaced:
        return await self._delay.replace(request)

    async def get_event(self, request: GetEvent) -> GotEvent:
        got = await self._delay.get_event(request)
        if got.event is None or await self._owned.owns(got.event.topic_id):
            return got
        return GotEvent(None)

    async def list_events(self, request: ListEvents) -> EventPage:
        if not self._owned.owns_all and not request.topic_id:
            ids = await self._owned.ids()
            if not ids:
                return EventPage([])
            request = replace(request, topic_ids=ids)
        return await self._delay.list_events(request)

    async def list_dead(self, request: ListDead) -> EventPage:
        if not self._owned.owns_all and not request.topic_id:
            ids = await self._owned.ids()
            if not ids:
                return EventPage([])
            request = replace(request, topic_ids=ids)
        return await self._delay.list_dead(request)

    # --- operations ---------------------------------------------------------------

    async def begin_bulk(self, request: BeginBulk) -> Begun:
        wanted = request.bulk.filter
        if not self._owned.owns_all and not wanted.topic_id:
            ids = await self._owned.ids()
            if not ids:
                raise Refusal(
                    "unknown_topic",
                    "this namespace has no topics yet, so there is nothing to change",
                )
            wanted = replace(wanted, topic_ids=tuple(ids))
            request = replace(request, bulk=replace(request.bulk, filter=wanted))
        return await self._delay.begin_bulk(request)

    async def get_operation(self, request: GetOperation) -> Operation:
        operation = await self._delay.get_operation(request)
        if not await self._owns_operation(operation):
            raise UnknownOperation(id_text(request.operation_id))
        return operation

    async def cancel_operation(self, request: CancelOperation) -> Operation:
        await self.get_operation(GetOperation(request.operation_id))
        return await self._delay.cancel_operation(request)

    async def list_operations(self, request: ListOperations) -> OperationPage:
        if self._owned.owns_all:
            return await self._delay.list_operations(request)
        page = OperationPage([], request.after)
        for _ in range(_ROUNDS):
            wanted = request.limit - len(page.operations)
            asked = replace(request, limit=wanted, after=page.next_token)
            found = await self._delay.list_operations(asked)
            for operation in found.operations:
                if await self._owns_operation(operation):
                    page.operations.append(operation)
            page.next_token = found.next_token
            if not page.next_token or len(page.operations) >= request.limit:
                break
        return page

    # --- what is coming -----------------------------------------------------------

    async def ask_due(self, request: AskDue) -> DueHistogram:
        if not self._owned.owns_all and not request.topic_id:
            # No topic has the id 0: without topics nothing is counted.
            ids = await self._owned.ids() or [0]
            request = replace(request, topic_ids=ids)
        return await self._delay.ask_due(request)

    async def topic_states(self, request: AskTopics) -> TopicStates:
        return await self._delay.topic_states(request)

    async def pending_counts(self, request: AskTopics) -> PendingCounts:
        return await self._delay.pending_counts(request)

    async def heed_settings(self, request: Empty) -> Empty:
        return await self._delay.heed_settings(request)

    async def status(self, request: Empty) -> BrokerStatus:
        return await self._delay.status(request)

    # --- schedules ----------------------------------------------------------------

    async def create_schedule(self, request: CreateSchedule) -> CreatedSchedule:
        return await self._delay.create_schedule(request)

    async def change_schedule(self, request: ChangeSchedule) -> Schedule:
        await self._check_schedule(request.schedule_id)
        return await self._delay.change_schedule(request)

    async def pause_schedule(self, request: PauseSchedule) -> Schedule:
        await self._check_schedule(request.schedule_id)
        return await self._delay.pause_schedule(request)

    async def end_schedule(self, request: EndSchedule) -> Schedule:
        await self._check_schedule(request.schedule_id)
        return await self._delay.end_schedule(request)

    async def get_schedule(self, request: GetSchedule) -> GotSchedule:
        got = await self._delay.get_schedule(request)
        found = got.schedule
        if found is None or await self._owned.owns(found.progress.topic_id):
            return got
        return GotSchedule(None)

    async def list_schedules(self, request: ListSchedules) -> SchedulePage:
        if not self._owned.owns_all and not request.topic_id:
            ids = await self._owned.ids()
            if not ids:
                return SchedulePage([])
            request = replace(request, topic_ids=ids)
        return await self._delay.list_schedules(request)

    # --- whose is it --------------------------------------------------------------

    async def _has_event(self, event_id: bytes) -> bool:
        if self._owned.owns_all:
            return True
        return (await self.get_event(GetEvent(event_id))).event is not None

    async def _check_event(self, event_id: bytes) -> None:
        if not await self._has_event(event_id):
            raise UnknownEvent(id_text(event_id))

    async def _check_schedule(self, schedule_id: bytes) -> None:
        if self._owned.owns_all:
            return
        if (await self.get_schedule(GetSchedule(schedule_id))).schedule is None:
            raise UnknownSchedule(id_text(schedule_id))

    async def _owns_operation(self, operation: Operation) -> bool:
        """One about everything is from before there were namespaces."""
        wanted = operation.bulk.filter
        if wanted.topic_id:
            return await self._owned.owns(wanted.topic_id)
        if wanted.topic_ids:
            return await self._owned.owns(wanted.topic_ids[0])
        return self._owned.is_default
