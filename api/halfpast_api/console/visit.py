"""One request to the console, with who makes it.

A page asks for what `GET /v1/...` would answer and a form does what `POST /v1/...`
would do: the same handlers, in this process, with the rights of whoever looks at the
page. So nothing can be seen or done here that the API would refuse, and everything is
checked, limited and put on record at one place.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar
from urllib.parse import unquote

import msgspec

from halfpast_api.answer import Answer, Headers
from halfpast_api.call import Call
from halfpast_api.console.addresses import target
from halfpast_api.console.cookies import read_cookie
from halfpast_api.console.form import Form
from halfpast_api.console.moment import zone_of
from halfpast_api.console.said import Said
from halfpast_api.console.viewer import Viewer
from halfpast_api.problems import Problem
from halfpast_api.query import Query

T = TypeVar("T")

ZONE_COOKIE: Final = "halfpast_zone"
"""Written by `console.js`."""


@dataclass(frozen=True, slots=True)
class View:
    """A page: a template and what it shows.

    `live_ms`: how often its block `live` is made anew for readers who stay; 0 never.
    """

    template: str
    values: Mapping[str, object]
    status: int = 200
    live_ms: int = 0
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Redirect:
    """Where to go on, after a form or for a link that means another page."""

    url: str
    said: Said | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Visit:
    """`form` and `problem` are set where a form was refused: its page is shown again
    with both."""

    call: Call
    viewer: Viewer
    form: Form | None = None
    problem: Problem | None = None

    @property
    def zone(self) -> str:
        """The reader's time zone, as far as their browser has told it."""
        return zone_of(unquote(read_cookie(self.call.headers, ZONE_COOKIE))).key

    @property
    def parameter(self) -> str:
        """The part of the path that says which one is meant."""
        return self.call.parameters[0]

    def query(self, *names: str) -> Query:
        """The query, without what a form has left empty. Raises Refusal."""
        given = self.call.query(*names)
        return Query({name: it for name, it in given.values.items() if it})

    async def get(self, kind: type[T], *segments: str, **query: str | int | None) -> T:
        """What the API answers to a GET. Raises Refusal, and what handlers raise."""
        answer = await self.call.inner("GET", target(*segments, query=query))
        return msgspec.json.decode(answer.content, type=kind)

    async def send(
        self,
        method: str,
        *segments: str,
        verb: str = "",
        body: object = None,
        version: str | int | None = None,
        once: str = "",
    ) -> Answer:
        """Have the API do something. `version`: only to this one of it; `once`: not
        again if the same form comes twice."""
        headers: dict[str, str] = {}
        if version not in (None, ""):
            headers["If-Match"] = f'"{version}"'
        if once:
            headers["Idempotency-Key"] = once
        where = target(*segments, verb=verb)
        return await self.call.inner(method, where, body, headers)

    async def create(self, *segments: str, body: object) -> Answer:
        """PUT it, unless there is one already. Raises Refusal."""
        sent = {"If-None-Match": "*"}
        return await self.call.inner("PUT", target(*segments), body, sent)

    def typed(
        self, values: Mapping[str, object] | None = None, *, verb: str = ""
    ) -> "Known":
        """What the fields of a form hold, whose address ends in `verb`. A page may
        have several forms: what was typed into another is not this one's."""
        is_this = self.call.path.partition("?")[0].rpartition("/")[2]
        form = self.form if is_this.rpartition(":")[2 if verb else 1] == verb else None
        return Known(form, values or {})

    def refused(self, form: Form, problem: Problem) -> "Visit":
        """The same, to show the page of a form again."""
        return replace(self, form=form, problem=problem)


@dataclass(frozen=True, slots=True)
class Known:
    """What fields of a form hold: what was typed, if the form was refused, and else
    what is known."""

    form: Form | None
    values: Mapping[str, object] = field(default_factory=dict[str, object])

    def __call__(self, name: str, default: object = "") -> str:
        if self.form is not None:
            return self.form.get(name, "")
        value = self.values.get(name, default)
        return "" if value is None else str(value)

    def ticked(self, name: str, default: bool = False) -> bool:
        if self.form is not None:
            return self.form.ticked(name)
        return bool(self.values.get(name, default))
