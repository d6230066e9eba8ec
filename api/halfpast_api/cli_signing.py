"""keys rotate-signing, drop-signing: the secrets with which owners of keys sign."""

from typing import TYPE_CHECKING, Annotated

import typer

from halfpast_api.cli_key_source import AnyServer, KeyId, with_keys
from halfpast_api.cli_key_view import print_new_signing, print_one
from halfpast_api.cli_output import AsJson, print_line
from halfpast_api.cli_serve_options import DATA, Data, Metadata

if TYPE_CHECKING:
    from halfpast_api.access.key_bodies import KeyView, NewSigningView
    from halfpast_api.cli_key_source import Keys

KeepOld = Annotated[
    str, typer.Option(help="How long the old secret still counts; 0s: not at all.")
]


def rotate_signing(
    key: KeyId,
    keep_old: KeepOld = "24h",
    server: AnyServer = None,
    data: Data = DATA,
    metadata: Metadata = None,
    as_json: AsJson = False,
) -> None:
    """Give a key a signing secret, its first or a new one, for clients of RocketMQ."""

    async def work(keys: "Keys") -> "NewSigningView":
        return await keys.rotate_signing(key, keep_old_ms(keep_old))

    new = with_keys(work, server, data, metadata, as_json)
    print_new_signing(new, as_json)


def drop_signing(
    key: KeyId,
    server: AnyServer = None,
    data: Data = DATA,
    metadata: Metadata = None,
    as_json: AsJson = False,
) -> None:
    """Take a key its signing secrets; all else goes on."""

    async def work(keys: "Keys") -> "KeyView":
        return await keys.drop_signing(key)

    after = with_keys(work, server, data, metadata, as_json)
    if as_json:
        print_one(after)
    else:
        print_line(f"nobody signs with {after.id} any more, within a second or two")


def keep_old_ms(text: str) -> int:
    """Such an option, in milliseconds. Raises CommandFailed."""
    from halfpast_api.cli_times import parse_span

    return round(parse_span(text).total_seconds() * 1000)
