"""What is said of one call of the API: the words, the types, the problems, examples.

An `Operation` belongs to the route with the same method and template. Types are the
structs that its handler reads and writes, so that they cannot say something else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

Schema = Mapping[str, object]
Place = Literal["path", "query", "header"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A part of the path, a query parameter, or a header of the request."""

    name: str
    place: Place
    text: str
    schema: Schema
    example: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """A good answer. `view` None: something else than JSON, of `content_type`. `other`:
    what it may be instead, by what was asked for."""

    text: str
    view: type[msgspec.Struct] | None = None
    headers: Sequence[str] = ()
    content_type: str = "application/json"
    other: type[msgspec.Struct] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A request that works, with the status that answers it.

    Parameters that are not given have their own example. The ids in it are those of
    `samples`; a test puts real ones in their place and sends it.
    """

    text: str
    body: object = None
    status: int = 200
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One call. `name` is what generated clients call it; `body_optional`: it may be
    left out. `problems` are codes, beside those of `codes.EVERYWHERE`."""

    method: str
    template: str
    name: str
    tag: str
    summary: str
    text: str = ""
    parameters: Sequence[Parameter] = ()
    body: type[msgspec.Struct] | None = None
    body_optional: bool = False
    replies: Mapping[int, Reply]
    problems: Sequence[str] = ()
    examples: Sequence[Example] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A call that the server makes to an address of yours. `answer` None: the status
    is all that counts."""

    name: str
    tag: str
    summary: str
    text: str
    body: type[msgspec.Struct]
    headers: Sequence[Parameter]
    answer: type[msgspec.Struct] | None = None
    example: object = None


@dataclass(frozen=True, slots=True)
class Tag:
    """A group of calls."""

    name: str
    text: str
