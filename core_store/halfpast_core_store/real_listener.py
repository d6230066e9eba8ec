"""Listening at an address: who may bind there, and who may connect.

A socket file outlives a killed server. It is removed only if nobody answers on it,
and on closing only if it is still our own: a successor may have begun already.
Two servers that start in the same moment must be kept apart by other means, such
as the lock on the data folder.
"""

import asyncio
import contextlib
import errno
import os
import socket
import stat
from collections.abc import Callable

from halfpast_core_store.rpc_address import TcpAddress, UnixAddress
from halfpast_core_store.rpc_errors import AddressInUse, BadAddress


class Listener:
    """A bound address that accepts connections. Made by `listen`."""

    def __init__(
        self, address: UnixAddress | TcpAddress, accepting: asyncio.Server
    ) -> None:
        self.address = address
        self._accepting = accepting
        self._socket_file: os.stat_result | None = None
        if isinstance(address, UnixAddress):
            self._socket_file = os.stat(address.path)

    def close(self) -> None:
        """Accept no more. Connections that were accepted stay open."""
        self._accepting.close()
        ours, self._socket_file = self._socket_file, None
        if isinstance(self.address, UnixAddress) and ours is not None:
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.stat(self.address.path), ours):
                    os.unlink(self.address.path)


async def listen(
    address: UnixAddress | TcpAddress,
    accept: Callable[[], asyncio.BaseProtocol],
    backlog: int,
) -> Listener:
    """Bind and accept. Raises AddressInUse, or BadAddress for all that else hinders.

    A port 0 becomes the port that was chosen.
    """
    loop = asyncio.get_running_loop()
    try:
        if isinstance(address, UnixAddress):
            accepting = await loop.create_unix_server(
                accept, sock=_bind(address), backlog=backlog
            )
            return Listener(address, accepting)
        accepting = await loop.create_server(
            accept, address.host, address.port, backlog=backlog
        )
        port: int = accepting.sockets[0].getsockname()[1]
        return Listener(TcpAddress(address.host, port), accepting)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(str(address)) from error
        raise BadAddress(str(address), error.strerror or str(error)) from error


def _bind(address: UnixAddress) -> socket.socket:
    """A bound socket whose file only our own user can reach, from the first moment."""
    _remove_stale(address)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(bound.fileno(), 0o600)  # Linux gives the file this mode
        bound.bind(address.path)
        os.chmod(address.path, 0o600)
    except OSError:
        bound.close()
        raise
    return bound


def _remove_stale(address: UnixAddress) -> None:
    """Remove the socket file that a killed server left behind."""
    try:
        mode = os.stat(address.path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise BadAddress(str(address), "there is a file that is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(address.path)
        except ConnectionRefusedError:
            os.unlink(address.path)
            return
        except OSError:  # a full backlog, or not ours to reach: somebody is there
            pass
    raise AddressInUse(str(address))
