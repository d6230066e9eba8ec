"""Whether a server that is about to start asks for keys, and whether it may start.

    listens on      dev        up, api
    loopback        open       auto: asks as soon as there ever was a key
    anything else   keys       keys: refuses to start without one that counts

`--auth` says otherwise; to be open to other machines takes `--unsafe-open` as well.
"""

import asyncio
import os
import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from halfpast_api.cli_output import USAGE, CommandFailed
from halfpast_api.places import Places

Mode = Literal["open", "auto", "keys"]
Auth = Annotated[
    str | None,
    typer.Option(
        "--auth",
        envvar="HALFPAST_API_AUTH",
        metavar="open|auto|keys",
        help="Whether callers need a key; auto: as soon as there is one.",
        show_default="by --host",
    ),
]


def auth_mode(
    wanted: str | None,
    host: str,
    unsafe_open: bool,
    places: Places,
    *,
    on_loopback: Mode,
) -> Mode:
    """How to start. A failure of the command where strangers would be let in, or
    nobody at all."""
    from halfpast_api.access.site_guard import is_loopback

    if wanted not in (None, "open", "auto", "keys"):
        raise CommandFailed(
            f"--auth {wanted!r} is not known", code=USAGE, hint="--auth keys"
        )
    if is_loopback(host):
        return _mode(wanted) or on_loopback
    if unsafe_open:
        return _mode(wanted) or "open"
    if wanted == "open":
        raise CommandFailed(
            f"{host} is open to other machines, and nobody would be asked for a key",
            code=USAGE,
            hint="--auth keys, or --unsafe-open if your network keeps strangers out",
        )
    if not _someone_gets_in(places):
        raise CommandFailed(
            f"{host} is open to other machines, so callers need a key, and there is "
            "none yet",
            code=USAGE,
            hint=f"make the first one: {_first_key(places)}; or --host 127.0.0.1, or "
            "--unsafe-open if your network keeps strangers out",
        )
    return "keys"


def note_of(mode: Mode, host: str, places: Places, for_development: str) -> str:
    """What the start says about it."""
    from halfpast_api.access.site_guard import is_loopback

    if mode == "keys":
        return f"asks for a key; to make one: {_first_key(places)}"
    if not is_loopback(host):
        return "NO AUTHENTICATION: whoever reaches this address may do anything"
    if mode == "auto":
        return "loopback only; no authentication until there is a key"
    return for_development


def _mode(text: str | None) -> Mode | None:
    known: dict[str | None, Mode] = {"open": "open", "auto": "auto", "keys": "keys"}
    return known.get(text)


def _first_key(places: Places) -> str:
    """The command that makes one."""
    ours = Places.below(places.data)
    if places.metadata != ours.metadata:
        return "HALFPAST_METADATA=… halfpast keys create --admin"
    here = Path(".halfpast").absolute()
    data = "" if places.data == here else f" --data {shlex.quote(str(places.data))}"
    return f"halfpast keys create --admin{data}"


def _someone_gets_in(places: Places) -> bool:
    """Whether there is a key that counts, or a provider. True where the database does
    not answer: then nobody gets in who is not known from before."""
    if os.environ.get("HALFPAST_API_OIDC_ISSUER"):
        return True
    prefix = "sqlite:///"
    if places.metadata.startswith(prefix) and not (
        Path(places.metadata[len(prefix) :]).exists()
    ):
        return False

    async def count() -> int:
        from halfpast_api.access.key_store import KeyStore
        from halfpast_api.metadata.store import MetadataStore

        metadata = await MetadataStore.open(places.metadata)
        try:
            return await KeyStore(metadata).live_count()
        finally:
            await metadata.close()

    from halfpast_api.metadata.errors import MetadataUnavailable

    try:
        return asyncio.run(count()) > 0
    except MetadataUnavailable:
        return True
