"""PostgreSQL as a lean client speaks it: values made beforehand in, a result out.

For the baselines: a general client spends more on a row than the server does, and
the two share the machine. So values are bytes in PostgreSQL's binary form, made once,
and libpq is driven from the event loop without anything between.
"""

import asyncio
import struct
from collections.abc import Callable, Sequence

from psycopg import OperationalError, pq
from psycopg.pq.abc import PGresult

from halfpast_loadtest.errors import OutcomeUnknown

BINARY = 1
BYTEA_OID = 17
TIMESTAMPTZ_OID = 1184
EPOCH_2000_MS = 946_684_800_000
DONE = frozenset({pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK})


class PostgresLine:
    """One connection with prepared statements: `send` one, and `on_result` is called.

    At most one is open at a time. `on_lost` is called when the connection ends or a
    statement fails.
    """

    def __init__(
        self,
        url: str,
        on_result: Callable[[PGresult], None],
        on_lost: Callable[[Exception], None],
    ) -> None:
        self._on_result = on_result
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._connection = pq.PGconn.connect(url.encode())
        if self._connection.status != pq.ConnStatus.OK:
            raise OutcomeUnknown(self._connection.get_error_message())
        self._socket = self._connection.socket
        self.closed = False
        self._result: PGresult | None = None
        self._formats: dict[bytes, list[int]] = {}

    def prepare(self, name: bytes, statement: str) -> None:
        """Make a statement known, before the first one is sent."""
        parsed = self._connection.prepare(name, statement.encode())
        if parsed.status not in DONE:
            raise OutcomeUnknown(parsed.get_error_message())
        count = self._connection.describe_prepared(name).nparams
        self._formats[name] = [BINARY] * count

    def start(self) -> None:
        """From here on it lives on the event loop."""
        self._connection.nonblocking = 1
        self._loop.add_reader(self._socket, self._readable)

    def send(self, name: bytes, values: Sequence[bytes]) -> None:
        self._connection.send_query_prepared(
            name, values, self._formats[name], result_format=BINARY
        )
        self._flush()

    def close(self) -> None:
        self.closed = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._connection.finish()

    def _flush(self) -> None:
        if self._connection.flush():
            self._loop.add_writer(self._socket, self._writable)

    def _writable(self) -> None:
        self._loop.remove_writer(self._socket)
        self._flush()

    def _readable(self) -> None:
        connection = self._connection
        try:
            connection.consume_input()
        except OperationalError as error:
            self._loop.remove_reader(self._socket)
            self._on_lost(error)
            return
        while not connection.is_busy():
            result = connection.get_result()
            if result is None:
                self._finish()
                return
            self._result = result

    def _finish(self) -> None:
        result, self._result = self._result, None
        if result is None:
            return  # a notice came between two statements
        if result.status not in DONE:
            self._on_lost(OutcomeUnknown(result.get_error_message()))
        else:
            self._on_result(result)


def timestamp(epoch_ms: int) -> bytes:
    """A timestamptz: microseconds since 2000."""
    return struct.pack(">q", (epoch_ms - EPOCH_2000_MS) * 1000)


def timestamp_ms(value: bytes) -> float:
    """The same the other way, in epoch milliseconds."""
    microseconds: int = struct.unpack(">q", value)[0]
    return microseconds / 1000 + EPOCH_2000_MS


def array(oid: int, values: Sequence[bytes]) -> bytes:
    """A one-dimensional array of values in binary form, none of them NULL."""
    parts = [struct.pack(">iiIii", 1, 0, oid, len(values), 1)]
    for value in values:
        parts += (struct.pack(">i", len(value)), value)
    return b"".join(parts)
