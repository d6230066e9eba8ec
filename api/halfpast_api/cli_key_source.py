"""What keeps the keys for a command: a server, or the metadata database at hand.

With --server, or a key in the environment, a server is asked. Without, commands work on
the metadata database of the data folder: so the first key can be made.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from halfpast_api.cli_credentials import API_KEY
from halfpast_api.cli_output import REFUSED, CommandFailed
from halfpast_api.cli_server import DEFAULT_SERVER, guarded, retry_policy

if TYPE_CHECKING:
    from halfpast_api.access.access_calls import AccessCalls
    from halfpast_api.access.local_keys import LocalKeys

    Keys = AccessCalls | LocalKeys

R = TypeVar("R")

AnyServer = Annotated[
    str | None,
    typer.Option(
        "--server",
        help="Ask this server, instead of opening its metadata database.",
        show_default=False,
    ),
]
KeyId = Annotated[
    str, typer.Argument(metavar="ID", help="The 8 characters behind hp_.")
]


def with_keys(
    work: "Callable[[Keys], Coroutine[Any, Any, R]]",
    server: str | None,
    data: Path,
    metadata: str | None,
    as_json: bool,
) -> R:
    """Run `work` with whatever keeps the keys."""
    named = server or os.environ.get("HALFPAST_URL")
    if named is None and API_KEY in os.environ:
        named = DEFAULT_SERVER

    async def run() -> R:
        from halfpast_api.access.access_calls import AccessCalls
        from halfpast_api.access.local_keys import LocalKeys

        if named is not None:
            async with AccessCalls(named, retry_policy()) as calls:
                return await work(calls)
        from halfpast_api.places import Places

        places = Places.below(data, metadata=metadata)
        if metadata is None:
            places.prepare()
        async with LocalKeys(places.metadata) as keys:
            return await work(keys)

    return guarded(
        lambda: _explained(run), server=named or DEFAULT_SERVER, as_json=as_json
    )


def _explained(run: Callable[[], Coroutine[Any, Any, R]]) -> R:
    """What the database or its rules refuse, as a failure of the command."""
    from halfpast_api.metadata.errors import MetadataError
    from halfpast_api.problems import Refusal

    try:
        return asyncio.run(run())
    except Refusal as refusal:
        raise CommandFailed(refusal.detail, code=REFUSED) from None
    except MetadataError as error:
        raise CommandFailed(str(error), code=REFUSED) from None
