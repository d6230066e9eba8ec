"""`python -m halfpast_api.health_probe NAME`: ends with 0 if the service answers.

For the health checks of containers, which run it every few seconds: it loads as little
as it can. Where the service is, the environment says, as to the service itself.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from halfpast_api.places import Places
from halfpast_api.probes import (
    broker_answers,
    delay_answers,
    http_lives,
    push_answers,
    transactions_answer,
)

USAGE = 2
PORT = 7080

Answers = Callable[[], Awaitable[bool]]


def probe_of(name: str, environment: Mapping[str, str]) -> Answers | None:
    """The question to the service of this name; None if there is no such service."""
    places = Places.below(
        Path(environment.get("HALFPAST_DATA", ".halfpast")),
        broker=environment.get("HALFPAST_BROKER"),
        chronos=environment.get("HALFPAST_CHRONOS"),
        transactions=environment.get("HALFPAST_TXN"),
        push=environment.get("HALFPAST_PUSH"),
    )
    port = int(environment.get("HALFPAST_PORT", PORT))
    known: dict[str, Answers] = {
        "api": lambda: http_lives(_reached(environment.get("HALFPAST_HOST", "")), port),
        "broker": lambda: broker_answers(reached_by_rpc(places.broker)),
        "chronos": lambda: delay_answers(reached_by_rpc(places.chronos)),
        "txn": lambda: transactions_answer(reached_by_rpc(places.transactions)),
        "push": lambda: push_answers(reached_by_rpc(places.push)),
    }
    return known.get(name)


def _reached(host: str) -> str:
    """Where something that listens at `host` is reached from the same machine."""
    here = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
    return here.get(host, host)


def reached_by_rpc(address: str) -> str:
    """The same for the address of a service."""
    anywheres = ("0.0.0.0", "127.0.0.1"), ("[::]", "[::1]")
    for anywhere, here in anywheres:
        if address.startswith(f"tcp:{anywhere}:"):
            return f"tcp:{here}:{address.rpartition(':')[2]}"
    return address


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """0: it answers, 1: it does not."""
    probe = probe_of(arguments[0] if arguments else "api", environment)
    if probe is None:
        print("health_probe: api, broker, chronos, txn or push", file=sys.stderr)
        return USAGE
    try:
        return 0 if asyncio.run(_ask(probe)) else 1
    except (OSError, TimeoutError) as error:
        print(f"no answer: {error!r}", file=sys.stderr)
        return 1


async def _ask(probe: Answers) -> bool:
    return await probe()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
