"""What `--master` names, and whether anybody answers there: known within seconds.

Spark itself tries a standalone master for a minute and a Connect server for ten, and
then says something else.
"""

import re
import socket
from dataclasses import dataclass
from enum import StrEnum

from .job_errors import BadMaster, MasterUnreachable

CONNECT_PORT = 15002
ANSWER_S = 5.0
_LOCAL = re.compile(r"local(\[(\d+|\*)(, *\d+)?\])?|local-cluster\[[\d, ]+\]")
_ADDRESS = re.compile(
    r"(?P<host>[^\s:/;\[\]]+|\[[0-9a-fA-F:.]+\])(:(?P<port>\d{1,5}))?"
)


class MasterKind(StrEnum):
    """LOCAL runs in this process, OTHER is somebody's resource manager."""

    LOCAL = "local"
    STANDALONE = "spark"
    CONNECT = "sc"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Master:
    """A master by its text; `addresses` are hosts and ports, one of which answers."""

    text: str
    kind: MasterKind
    addresses: tuple[tuple[str, int], ...] = ()


def parse_master(text: str) -> Master:
    """Raises BadMaster."""
    if _LOCAL.fullmatch(text):
        return Master(text, MasterKind.LOCAL)
    scheme, separator, rest = text.partition("://")
    if text == "yarn" or (scheme == "k8s" and rest):
        return Master(text, MasterKind.OTHER)
    if separator and scheme == MasterKind.CONNECT:
        address = _address(text, rest.partition("/")[0], CONNECT_PORT)
        return Master(text, MasterKind.CONNECT, (address,))
    if separator and scheme == MasterKind.STANDALONE:
        found = tuple(_address(text, one, None) for one in rest.split(","))
        return Master(text, MasterKind.STANDALONE, found)
    raise BadMaster(text)


def need_answer(master: Master) -> None:
    """Raises MasterUnreachable unless one of the addresses takes connections."""
    failures: list[str] = []
    for host, port in master.addresses:
        try:
            socket.create_connection((host, port), ANSWER_S).close()
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return
    if failures:
        raise MasterUnreachable(master.text, "; ".join(failures))


def _address(text: str, address: str, port: int | None) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(address)
    if match is None or (match["port"] is None and port is None):
        raise BadMaster(text)
    number = int(match["port"] or port or 0)
    if not 0 < number < 65536:
        raise BadMaster(text)
    return match["host"].strip("[]"), number
