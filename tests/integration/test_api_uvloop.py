"""The same on uvloop, whose connections are of another class than asyncio's."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop
from tests.integration import test_api_connections as connections
from tests.integration import test_api_flow as flow
from tests.integration.api_server import Api, running_api

Scenario = Callable[[Api], Awaitable[None]]


@pytest.mark.parametrize(
    "scenario",
    [
        connections.test_a_client_that_says_nothing_is_cut_off,
        connections.test_headers_that_trickle_in_are_cut_off,
        connections.test_a_body_that_trickles_in_is_cut_off,
        connections.test_an_idle_connection_is_closed_without_a_word,
        connections.test_requests_may_be_pipelined,
        connections.test_a_body_may_come_in_pieces_after_asking,
        connections.test_chunked_and_compressed_bodies_are_read,
    ],
)
def test_connections(tmp_path: Path, scenario: Scenario) -> None:
    async def run() -> None:
        async with connections.hasty_api(tmp_path) as api:
            await scenario(api)

    uvloop.run(run())


@pytest.mark.parametrize(
    "scenario",
    [
        connections.test_there_are_only_so_many_connections,
        connections.test_a_client_that_does_not_read_is_cut_off,
    ],
)
def test_limits(tmp_path: Path, scenario: Callable[[Path], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario(tmp_path)

    uvloop.run(run())


@pytest.mark.parametrize(
    "scenario",
    [
        flow.test_a_scheduled_event_is_delivered_when_due_and_not_before,
        flow.test_a_batch_goes_to_many_topics,
        flow.test_cancel_tells_the_truth,
    ],
)
def test_flow(tmp_path: Path, scenario: Scenario) -> None:
    async def run() -> None:
        async with running_api(tmp_path) as api:
            await scenario(api)

    uvloop.run(run())
