"""The front as a gRPC server, on the event loop of the API."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from halfpast_api.rocketmq import protocol
from halfpast_api.rocketmq.advertised import Advertised
from halfpast_api.rocketmq.caller import Callers
from halfpast_api.rocketmq.clients import Clients
from halfpast_api.rocketmq.config import GrpcConfig, join_address, split_address
from halfpast_api.rocketmq.counts import Counts
from halfpast_api.rocketmq.credentials import open_credentials
from halfpast_api.rocketmq.ending import Ending
from halfpast_api.rocketmq.front import Behaviour, Front, Parts
from halfpast_api.rocketmq.needs import FrontNeeds
from halfpast_api.rocketmq.orphan_checks import OrphanChecks
from halfpast_api.rocketmq.recalling import Recalling
from halfpast_api.rocketmq.receiving import Receiving
from halfpast_api.rocketmq.renewals import Renewals
from halfpast_api.rocketmq.rooms import Rooms
from halfpast_api.rocketmq.routes_reply import RoutesReply
from halfpast_api.rocketmq.sending import Sending
from halfpast_api.rocketmq.settling import Settling
from halfpast_api.rocketmq.telemetry import Telemetry
from halfpast_api.rocketmq.tls import server_credentials
from halfpast_api.rocketmq.waiting import Waiting
from halfpast_api.times import NS_PER_MS

if TYPE_CHECKING:
    from halfpast_api.rocketmq.traced import TracedCalls

_GRACE_S: Final = 2.0


class RunningFront:
    """A front that answers at `address` until it is closed."""

    def __init__(self, address: str, counts: Counts, stack: AsyncExitStack) -> None:
        self.address: Final = address
        self.counts: Final = counts
        self._stack = stack

    async def close(self) -> None:
        """Take no more calls, end polls and streams, let the other calls finish."""
        await self._stack.aclose()


async def start_front(needs: FrontNeeds) -> RunningFront:
    """Serve at `config.grpc.address`. Raises OSError if that is taken, and what
    `tls.server_credentials` raises."""
    config, source = needs.config, needs.source
    front = config.grpc
    async with AsyncExitStack() as stack:
        server = grpc.aio.server(
            options=_options(front), maximum_concurrent_rpcs=front.calls_max
        )
        address = _listen(server, front)
        rooms, waiting, counts = Rooms(needs.spaces), Waiting(), Counts()
        credentials = open_credentials(needs.reception, config.signatures)
        callers = Callers(credentials, rooms, needs.limiter, needs.shedder)
        clients = Clients(front.liveness_ms / 1000)
        checks = OrphanChecks(clients, rooms, front.check_topics_max)
        renewals = Renewals(clients, rooms, front)
        telemetry = Telemetry(clients, callers, front)
        parts = Parts(
            callers=callers,
            clients=clients,
            routes=RoutesReply(callers, clients, Advertised(front.advertise, address)),
            sending=Sending(
                callers, clients, checks, source, front, config.transactions
            ),
            receiving=Receiving(
                callers,
                clients,
                renewals,
                waiting,
                front,
                lambda: source.now_ns() // NS_PER_MS,
            ),
            settling=Settling(callers, clients, renewals),
            recalling=Recalling(callers),
            ending=Ending(callers, checks),
            telemetry=telemetry,
            renewals=renewals,
            counts=counts,
            shedder=needs.shedder,
            traced=_traced(needs),
        )
        _watch(counts, clients, renewals, checks, waiting)
        server.add_generic_rpc_handlers([_handlers(Front(parts).behaviours())])
        stack.push_async_callback(waiting.close)
        stack.push_async_callback(checks.close)
        stack.push_async_callback(renewals.close)
        stack.push_async_callback(_stop, server, telemetry, waiting)
        renewals.start()
        await server.start()
        return RunningFront(address, counts, stack.pop_all())
    raise AssertionError("not reached")


def _traced(needs: FrontNeeds) -> "TracedCalls | None":
    if needs.tracing is None:
        return None
    from halfpast_api.rocketmq.traced import TracedCalls

    return TracedCalls(needs.tracing)


async def _stop(
    server: "grpc.aio.Server", telemetry: Telemetry, waiting: Waiting
) -> None:
    """Streams end in good order, before the server would cut them off."""
    telemetry.stop()
    waiting.stop()
    await asyncio.sleep(0)
    await server.stop(_GRACE_S)


def _listen(server: "grpc.aio.Server", config: GrpcConfig) -> str:
    host, port = split_address(config.address)
    wanted = join_address(host, port)
    credentials = server_credentials(config.tls)
    try:
        if credentials is None:
            bound = server.add_insecure_port(wanted)
        else:
            bound = server.add_secure_port(wanted, credentials)
    except RuntimeError as error:
        raise OSError(f"nobody can listen at {wanted} for gRPC: {error}") from None
    return join_address(host, bound)


def _options(config: GrpcConfig) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", config.request_max),
        ("grpc.max_send_message_length", -1),
        # One process listens at a port, so that a second one is told.
        ("grpc.so_reuseport", 0),
        # Clients in Java and C++ ping while nothing happens; others vanish without a
        # word, and are found out by a ping of ours.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.max_metadata_size", 16_384),
    ]


def _handlers(behaviours: "dict[str, Behaviour] | Any") -> "grpc.GenericRpcHandler":
    """All methods of the service, with how their messages are read and written."""
    service = protocol.DESCRIPTOR.services_by_name["MessagingService"]
    handlers: dict[str, Any] = {}
    for method in service.methods:
        kinds = "stream" if method.client_streaming else "unary"
        kinds += "_stream" if method.server_streaming else "_unary"
        make = getattr(grpc, f"{kinds}_rpc_method_handler")
        reads = getattr(protocol, method.input_type.name)
        writes = getattr(protocol, method.output_type.name)
        handlers[method.name] = make(
            behaviours[method.name],
            request_deserializer=partial(_read, reads),
            response_serializer=writes.SerializeToString,
        )
    return grpc.method_handlers_generic_handler(service.full_name, handlers)


def _read(kind: type[Any], data: bytes) -> Any:
    """The message; None for bytes that are none, which is for the front to say: gRPC
    would log each of them."""
    try:
        return kind.FromString(data)
    except DecodeError:
        return None


def _watch(
    counts: Counts,
    clients: Clients,
    renewals: Renewals,
    checks: OrphanChecks,
    waiting: Waiting,
) -> None:
    counts.watch(
        {
            "grpc_clients": lambda: len(clients),
            "grpc_streams": lambda: clients.stream_count,
            "grpc_renewals": lambda: len(renewals),
            "grpc_polls": lambda: len(waiting),
            "grpc_check_topics": lambda: checks.polling,
        },
        {
            "grpc_renewed_total": lambda: renewals.renewed_count,
            "grpc_checks_sent_total": lambda: checks.sent_count,
            "grpc_checks_unsent_total": lambda: checks.unsent_count,
        },
    )
