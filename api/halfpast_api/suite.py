"""The whole suite on one host: which processes there are and when each answers."""

import asyncio
import socket
import sys
from collections.abc import Callable

from halfpast_api.processes import Places
from halfpast_api.shutdown import SIGNALS, ignore_echoes
from halfpast_api.supervisor import GaveUp, Service, Supervisor

PROBE_S = 2.0


def run_suite(
    places: Places, host: str, port: int, ready: Callable[[str], None]
) -> None:
    """Run broker, chronos and api under a supervisor until asked to stop.

    Calls `ready` with the address of the API. Raises GaveUp, as SystemExit with
    the status of the service that cannot start.
    """
    places.prepare()
    port = port or _free_port(host)

    async def main() -> None:
        supervisor = Supervisor(services(places, host, port), print_at_once)
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, supervisor.stop)
        await supervisor.run(lambda: ready(f"http://{_in_url(host)}:{port}"))
        ignore_echoes()

    try:
        asyncio.run(main())
    except GaveUp as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        raise SystemExit(error.status if error.status > 0 else 1) from None


def services(places: Places, host: str, port: int) -> list[Service]:
    """In the order in which they need each other."""
    program = (sys.executable, "-m", "halfpast_api.cli")
    data = ("--data", str(places.data))
    return [
        Service(
            name="broker",
            command=[*program, "broker", *data, "--broker", places.broker],
            is_ready=lambda: broker_answers(places.broker),
        ),
        Service(
            name="chronos",
            command=[
                *program,
                "chronos",
                *data,
                *("--broker", places.broker, "--chronos", places.chronos),
            ],
            is_ready=lambda: delay_answers(places.chronos),
        ),
        Service(
            name="api",
            command=[
                *program,
                "api",
                *data,
                *("--broker", places.broker, "--chronos", places.chronos),
                # Whoever started the supervisor has been asked already.
                *("--host", host, "--port", str(port), "--unsafe-open"),
            ],
            environment={"HALFPAST_METADATA": places.metadata},
            is_ready=lambda: api_answers(host, port),
        ),
    ]


async def broker_answers(address: str) -> bool:
    """Whether a broker at this address answers a question."""
    from halfpast_core_store.broker import Empty
    from halfpast_core_store.broker_rpc import BrokerClient
    from halfpast_core_store.errors import CoreError

    client = BrokerClient(address)
    try:
        async with asyncio.timeout(PROBE_S):
            await client.status(Empty())
    except CoreError:
        return False
    finally:
        await client.close()
    return True


async def delay_answers(address: str) -> bool:
    """Whether a Delay Server at this address answers a question."""
    from halfpast_chronos.delay_rpc import DelayClient
    from halfpast_core_store.broker import Empty
    from halfpast_core_store.errors import CoreError

    client = DelayClient(address)
    try:
        async with asyncio.timeout(PROBE_S):
            await client.status(Empty())
    except CoreError:
        return False
    finally:
        await client.close()
    return True


async def api_answers(host: str, port: int) -> bool:
    """Whether HTTP is served there and the services behind it answer."""
    async with asyncio.timeout(PROBE_S):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(
                f"GET /readyz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
                "".encode()
            )
            return b" 200 " in await reader.readline()
        finally:
            writer.close()


def print_at_once(line: str) -> None:
    print(line, flush=True)


def _free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
