"""The Delay Server over a socket: its table, a client, a server."""

from halfpast_core_store.broker import BrokerStatus, Empty
from halfpast_core_store.errors import CoreError
from halfpast_core_store.rpc import Method
from halfpast_core_store.rpc_client import RpcClient
from halfpast_core_store.rpc_errors import ErrorRegistry
from halfpast_core_store.rpc_server import Server, serve

from . import errors as errors  # so that the registry knows our errors
from . import operation_errors as operation_errors
from .delay_server import (
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
from .due_calls import AskDue, DueHistogram
from .operation import (
    BeginBulk,
    Begun,
    CancelOperation,
    GetOperation,
    ListOperations,
    Operation,
    OperationPage,
)
from .recurring_calls import (
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
from .release_calls import AskTopics, ListDead, PendingCounts, Redrive, TopicStates

SERVICE = "chronos"

DELAY_TABLE = (
    Method("cancel", 1, Cancel, Cancelled),
    Method("reschedule", 2, Reschedule, Event),
    Method("replace", 3, Replace, Replaced),
    Method("get_event", 4, GetEvent, GotEvent),
    Method("list_events", 5, ListEvents, EventPage),
    Method("status", 6, Empty, BrokerStatus),
    Method("begin_bulk", 10, BeginBulk, Begun),
    Method("get_operation", 11, GetOperation, Operation),
    Method("list_operations", 12, ListOperations, OperationPage),
    Method("cancel_operation", 13, CancelOperation, Operation),
    Method("ask_due", 14, AskDue, DueHistogram),
    Method("topic_states", 7, AskTopics, TopicStates),
    Method("pending_counts", 8, AskTopics, PendingCounts),
    Method("redrive", 9, Redrive, Event),
    Method("list_dead", 15, ListDead, EventPage),
    Method("heed_settings", 16, Empty, Empty),
    Method("create_schedule", 20, CreateSchedule, CreatedSchedule),
    Method("change_schedule", 21, ChangeSchedule, Schedule),
    Method("pause_schedule", 22, PauseSchedule, Schedule),
    Method("end_schedule", 23, EndSchedule, Schedule),
    Method("get_schedule", 24, GetSchedule, GotSchedule),
    Method("list_schedules", 25, ListSchedules, SchedulePage),
)


async def serve_delay(delay: DelayServer, address: str) -> Server:
    """Offer a Delay Server at an address until the server is stopped."""
    return await serve(
        DELAY_TABLE, delay, address, service=SERVICE, errors=ErrorRegistry(CoreError)
    )


class DelayClient:
    """A Delay Server in another process. Raises what it raises, Unavailable if
    nothing was sent, and ConnectionLost if the outcome is unknown."""

    def __init__(self, address: str) -> None:
        self._rpc = RpcClient(
            address, DELAY_TABLE, service=SERVICE, errors=ErrorRegistry(CoreError)
        )

    async def close(self) -> None:
        await self._rpc.close()

    async def cancel(self, request: Cancel) -> Cancelled:
        return await self._rpc.call("cancel", request)

    async def reschedule(self, request: Reschedule) -> Event:
        return await self._rpc.call("reschedule", request)

    async def replace(self, request: Replace) -> Replaced:
        return await self._rpc.call("replace", request)

    async def get_event(self, request: GetEvent) -> GotEvent:
        return await self._rpc.call("get_event", request)

    async def list_events(self, request: ListEvents) -> EventPage:
        return await self._rpc.call("list_events", request)

    async def begin_bulk(self, request: BeginBulk) -> Begun:
        return await self._rpc.call("begin_bulk", request)

    async def get_operation(self, request: GetOperation) -> Operation:
        return await self._rpc.call("get_operation", request)

    async def list_operations(self, request: ListOperations) -> OperationPage:
        return await self._rpc.call("list_operations", request)

    async def cancel_operation(self, request: CancelOperation) -> Operation:
        return await self._rpc.call("cancel_operation", request)

    async def ask_due(self, request: AskDue) -> DueHistogram:
        return await self._rpc.call("ask_due", request)

    async def status(self, request: Empty) -> BrokerStatus:
        return await self._rpc.call("status", request)

    async def topic_states(self, request: AskTopics) -> TopicStates:
        return await self._rpc.call("topic_states", request)

    async def pending_counts(self, request: AskTopics) -> PendingCounts:
        return await self._rpc.call("pending_counts", request)

    async def redrive(self, request: Redrive) -> Event:
        return await self._rpc.call("redrive", request)

    async def heed_settings(self, request: Empty) -> Empty:
        return await self._rpc.call("heed_settings", request)

    async def list_dead(self, request: ListDead) -> EventPage:
        return await self._rpc.call("list_dead", request)

    async def create_schedule(self, request: CreateSchedule) -> CreatedSchedule:
        return await self._rpc.call("create_schedule", request)

    async def change_schedule(self, request: ChangeSchedule) -> Schedule:
        return await self._rpc.call("change_schedule", request)

    async def pause_schedule(self, request: PauseSchedule) -> Schedule:
        return await self._rpc.call("pause_schedule", request)

    async def end_schedule(self, request: EndSchedule) -> Schedule:
        return await self._rpc.call("end_schedule", request)

    async def get_schedule(self, request: GetSchedule) -> GotSchedule:
        return await self._rpc.call("get_schedule", request)

    async def list_schedules(self, request: ListSchedules) -> SchedulePage:
        return await self._rpc.call("list_schedules", request)
