"""The table of routes without a server, for whoever only wants to look at it."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from halfpast_api.access.space import Space
from halfpast_api.config import ApiConfig
from halfpast_api.console.assets import Assets
from halfpast_api.openapi.handlers import DescriptionHandlers
from halfpast_api.route_table import Surroundings, route_table
from halfpast_api.router import Route


def all_routes() -> Sequence[Route]:
    """Routes whose handlers have no services, so that they cannot be called."""
    files = Assets()
    around = _made(
        Surroundings,
        config=ApiConfig(),
        files=files,
        description=DescriptionHandlers(files),
    )
    return list(route_table(_made(Space, namespace=""), around))


def _made(kind: type[Any], **given: object) -> Any:
    """One of a kind, with what is given and nothing else in it."""
    names = [field.name for field in dataclasses.fields(kind)]
    return kind(**{name: given.get(name, _Nothing()) for name in names})


class _Nothing:
    """Has every attribute and no items, if handlers ask when they are made."""

    def __getattr__(self, name: str) -> "_Nothing":
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __call__(self, *args: object, **options: object) -> "_Nothing":
        return self
