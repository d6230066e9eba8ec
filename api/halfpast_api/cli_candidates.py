"""What a shell may complete a word to: names from the server, and of contexts.

Somebody has pressed a key and waits, so the server has half a second, and whatever goes
wrong means that there is nothing to offer.
"""

import os
from collections.abc import Mapping
from typing import Any

import typer

PATIENCE_S = 0.5
COUNT_MAX = 1000


def topics(context: typer.Context, incomplete: str) -> list[str]:
    """Names of topics."""
    return _named(context, "/v1/topics", "topics", incomplete)


def groups(context: typer.Context, incomplete: str) -> list[str]:
    """Names of consumer groups."""
    return _named(context, "/v1/groups", "groups", incomplete)


def endpoints(context: typer.Context, incomplete: str) -> list[str]:
    """Names of endpoints."""
    return _named(context, "/v1/endpoints", "endpoints", incomplete)


def producer_groups(context: typer.Context, incomplete: str) -> list[str]:
    """Names of producer groups."""
    return _named(context, "/v1/producer-groups", "producer_groups", incomplete)


def contexts(incomplete: str) -> list[str]:
    """Names of contexts."""
    from halfpast_api.contexts import ContextError, contexts_path, load

    try:
        known = load(contexts_path()).contexts
    except ContextError:
        return []
    return [name for name in sorted(known) if name.startswith(incomplete)]


def _named(
    context: typer.Context, path: str, member: str, incomplete: str
) -> list[str]:
    try:
        found = _asked(_environment(context), path)[member]
        names = [str(it["name"]) for it in found]
    except Exception:  # a traceback in the middle of a line helps nobody
        return []
    return [name for name in names if name.startswith(incomplete)]


def _environment(context: typer.Context) -> Mapping[str, str]:
    """What a command with these options would see: commands are not run here."""
    from halfpast_api.contexts import API_KEY, URL, contexts_path, environment_of

    root = context.find_root().params
    typed = _typed_server(context)
    found = {**os.environ}
    found |= environment_of(
        root.get("context_name"),
        has_server=bool(typed),
        environment=os.environ,
        path=contexts_path(),
    )
    if typed:
        found[URL] = typed
    if root.get("api_key"):
        found[API_KEY] = root["api_key"]
    return found


def _typed_server(context: typer.Context) -> str:
    """What stands behind --server, if that has been typed."""
    source = context.get_parameter_source("server")
    is_typed = source is not None and source.name == "COMMANDLINE"
    return str(context.params["server"]) if is_typed else ""


def _asked(environment: Mapping[str, str], path: str) -> dict[str, Any]:
    """With the standard library alone, which is loaded in no time."""
    import json
    from urllib.request import Request, urlopen

    from halfpast_api.cli_server import DEFAULT_SERVER

    server = environment.get("HALFPAST_URL") or DEFAULT_SERVER
    if not server.startswith(("http://", "https://")):
        return {}
    headers = {"Accept": "application/json"}
    if key := environment.get("HALFPAST_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    if namespace := environment.get("HALFPAST_NAMESPACE"):
        headers["Halfpast-Namespace"] = namespace
    url = f"{server.rstrip('/')}{path}?limit={COUNT_MAX}"
    request = Request(url, headers=headers)  # the server that the user has named
    with urlopen(request, timeout=PATIENCE_S) as answer:  # nosec B310
        found: dict[str, Any] = json.load(answer)
        return found
