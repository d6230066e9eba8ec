"""Carries operations on dead letters out, step by step.

How far one has come is written after each step, so one that is interrupted goes on
where it was; a step that is done twice finds its dead letters dealt with.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

import structlog

from halfpast_api.access.namespaced_names import split_name
from halfpast_api.event_id import id_text
from halfpast_api.metadata.errors import MetadataError
from halfpast_api.metadata.store import MetadataStore
from halfpast_api.push import operation_store
from halfpast_api.push.dead_reading import DeadMessage, count_dead, read_dead
from halfpast_api.push.operation import Action, Operation, Source, State
from halfpast_chronos.delay_server import Cancel, DelayServer, Event
from halfpast_chronos.release_calls import ListDead, Redrive
from halfpast_core_store.broker import Broker, TopicNames
from halfpast_core_store.errors import CoreError
from halfpast_core_store.record import decode_record
from halfpast_core_store.revival import Revive
from halfpast_core_store.rpc_errors import ConnectionLost, Unavailable

LOOK_S: Final = 0.5
STEP: Final = 200
NOT_DEAD: Final = "not_dead"
TOO_MANY: Final = "too_many_between"

log = structlog.get_logger("halfpast.push")


class OperationRunner:
    """Runs what it finds in the metadata database."""

    def __init__(
        self,
        broker: Broker,
        delay: DelayServer,
        metadata: MetadataStore,
        now_ms: Callable[[], int],
    ) -> None:
        self._broker = broker
        self._delay = delay
        self._metadata = metadata
        self._now_ms = now_ms

    async def run(self) -> None:
        """For ever."""
        while True:
            with suppress(MetadataError):
                for operation in await self._metadata.read(operation_store.running):
                    await self._advance(operation)
            await asyncio.sleep(LOOK_S)

    async def _advance(self, operation: Operation) -> None:
        """As far as it goes now."""
        while operation.state == State.RUNNING:
            try:
                operation = await self._step(operation)
            except (Unavailable, ConnectionLost, OSError):
                return  # a service is away: later
            except CoreError as error:
                operation = self._ended(operation, State.FAILED, str(error))
            written = operation
            if not await self._metadata.write(
                lambda connection, it=written: operation_store.progress(connection, it)  # type: ignore[misc]
            ):
                return  # somebody has stopped it

    async def _step(self, operation: Operation) -> Operation:
        if operation.wish.source == Source.DELAY:
            return await self._step_delayed(operation)
        return await self._step_of_group(operation)

    def _ended(self, operation: Operation, state: State, error: str = "") -> Operation:
        return replace(
            operation, state=state.value, error=error, finished_at_ms=self._now_ms()
        )

    # --- consumer groups and endpoints ----------------------------------------------

    async def _step_of_group(self, operation: Operation) -> Operation:
        wish = operation.wish
        if not operation.place:
            expected = await count_dead(self._broker, wish.group)
            operation = replace(operation, expected=expected)
        first = int(operation.place or 0)
        page = await read_dead(self._broker, wish.group, first, STEP)
        meant = [it for it in page.messages if _is_meant(operation, it)]
        codes = await self._revive(operation, [it.number for it in meant])
        operation = _counted(operation, len(page.messages), len(meant), codes)
        if TOO_MANY in codes:
            error = "too many older dead letters are left: deal with those first"
            return self._ended(operation, State.FAILED, error)
        all_found = wish.ids and operation.matched >= len(wish.ids)
        if page.next_number is None or all_found:
            return self._ended(operation, State.DONE)
        return replace(operation, place=str(page.next_number))

    async def _revive(self, operation: Operation, numbers: list[int]) -> list[str]:
        if operation.dry_run or not numbers:
            return []
        discard = operation.action == Action.DISCARD
        request = Revive(operation.wish.group, numbers, discard)
        return (await self._broker.revive(request)).codes

    # --- the Delay Server -------------------------------------------------------------

    async def _step_delayed(self, operation: Operation) -> Operation:
        token = bytes.fromhex(operation.place)
        page = await self._delay.list_dead(ListDead(0, STEP, token))
        topics = await self._topics({it.topic_id for it in page.events})
        meant = [it for it in page.events if _is_event_meant(operation, it, topics)]
        codes: list[str] = []
        if not operation.dry_run:
            codes = [await self._settle(operation, event) for event in meant]
        operation = _counted(operation, len(page.events), len(meant), codes)
        if not page.next_token:
            return self._ended(operation, State.DONE)
        return replace(operation, place=page.next_token.hex())

    async def _settle(self, operation: Operation, event: Event) -> str:
        """A code, empty for success."""
        try:
            if operation.action == Action.DISCARD:
                await self._delay.cancel(Cancel(event.event_id, event.version))
            else:
                await self._delay.redrive(Redrive(event.event_id, event.version))
        except (Unavailable, ConnectionLost):
            raise
        except CoreError:
            return NOT_DEAD  # somebody else was faster
        return ""

    async def _topics(self, ids: set[int]) -> dict[int, str]:
        found = await self._broker.topics_by_id(TopicNames(list(ids)))
        return {it.id: it.name for it in found.topics if it is not None}


def _is_meant(operation: Operation, message: DeadMessage) -> bool:
    record = message.record
    return message.dead_ms <= operation.created_at_ms and operation.wish.matches(
        id_text(record.event_id),
        message.dead.topic,
        record.key,
        record.tag,
        message.dead_ms,
    )


def _is_event_meant(operation: Operation, event: Event, topics: dict[int, str]) -> bool:
    topic = topics.get(event.topic_id, "")
    return (
        split_name(topic)[0] == operation.namespace
        and event.finished_ms <= operation.created_at_ms
        and operation.wish.matches(
            id_text(event.event_id), topic, event.key, _tag(event), event.finished_ms
        )
    )


def _tag(event: Event) -> bytes:
    return decode_record(event.record).tag if event.record else b""


def _counted(
    operation: Operation, scanned: int, matched: int, codes: list[str]
) -> Operation:
    changed = sum(not code for code in codes)
    return replace(
        operation,
        scanned=operation.scanned + scanned,
        matched=operation.matched + matched,
        changed=operation.changed + changed,
        gone=operation.gone + len(codes) - changed,
    )
