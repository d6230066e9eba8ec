"""The transaction service over a socket: its table, a client, a server."""

from halfpast_core_store.broker import BrokerStatus, Empty
from halfpast_core_store.errors import CoreError
from halfpast_core_store.rpc import Method
from halfpast_core_store.rpc_client import RpcClient
from halfpast_core_store.rpc_errors import ErrorRegistry
from halfpast_core_store.rpc_server import Server, serve

from . import errors as errors  # so that the registry knows our errors
from .transactions import (
    Added,
    AddMessages,
    AnswerChecks,
    Ended,
    EndTransactions,
    GetTransaction,
    GotTransaction,
    ListTransactions,
    PollChecks,
    PolledChecks,
    Resume,
    Transaction,
    TransactionPage,
    Transactions,
)

SERVICE = "txn"

TRANSACTIONS_TABLE = (
    Method("end", 1, EndTransactions, Ended),
    Method("add", 2, AddMessages, Added),
    Method("resume", 3, Resume, Transaction),
    Method("get", 4, GetTransaction, GotTransaction),
    Method("list", 5, ListTransactions, TransactionPage),
    Method("poll_checks", 6, PollChecks, PolledChecks),
    Method("answer_checks", 7, AnswerChecks, Ended),
    Method("status", 8, Empty, BrokerStatus),
)


async def serve_transactions(transactions: Transactions, address: str) -> Server:
    """Offer a transaction service at an address until the server is stopped."""
    return await serve(
        TRANSACTIONS_TABLE,
        transactions,
        address,
        service=SERVICE,
        errors=ErrorRegistry(CoreError),
    )


class TransactionsClient:
    """A transaction service in another process. Raises what it raises, Unavailable if
    nothing was sent, and ConnectionLost if the outcome is unknown."""

    def __init__(self, address: str) -> None:
        self._rpc = RpcClient(
            address,
            TRANSACTIONS_TABLE,
            service=SERVICE,
            errors=ErrorRegistry(CoreError),
        )

    async def close(self) -> None:
        await self._rpc.close()

    async def end(self, request: EndTransactions) -> Ended:
        return await self._rpc.call("end", request)

    async def add(self, request: AddMessages) -> Added:
        return await self._rpc.call("add", request)

    async def resume(self, request: Resume) -> Transaction:
        return await self._rpc.call("resume", request)

    async def get(self, request: GetTransaction) -> GotTransaction:
        return await self._rpc.call("get", request)

    async def list(self, request: ListTransactions) -> TransactionPage:
        return await self._rpc.call("list", request)

    async def poll_checks(self, request: PollChecks) -> PolledChecks:
        return await self._rpc.call("poll_checks", request)

    async def answer_checks(self, request: AnswerChecks) -> Ended:
        return await self._rpc.call("answer_checks", request)

    async def status(self, request: Empty) -> BrokerStatus:
        return await self._rpc.call("status", request)
