"""One request as its handler sees it, and the way to answer it."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final

import msgspec
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from halfpast_api import headers
from halfpast_api.access.access import OPEN_ACCESS, Access
from halfpast_api.access.verbs import Verb
from halfpast_api.answer import Answer, Headers, encode_json
from halfpast_api.connection import Connection
from halfpast_api.limits.quota import Quota
from halfpast_api.query import Query
from halfpast_api.reading import Format, Reader, T
from halfpast_api.topic_directory import Topic

_MSGPACK_TYPE: Final = "application/msgpack"
_NOTHING_SENT: Final[Mapping[str, str]] = {}
_encode_msgpack: Final = msgspec.msgpack.Encoder().encode


Perform = Callable[["Call", str, str, bytes, Mapping[str, str]], Awaitable[Answer]]
"""Runs another route for the caller of a call: method, target, body, headers."""


class Call:
    """A request with its body received. `access` says who calls, and `verb` what the
    route is about."""

    __slots__ = (
        *("_form", "_perform", "_request", "access", "body", "parameters"),
        *("quota", "request_id", "verb"),
    )

    def __init__(
        self,
        request: web.BaseRequest,
        parameters: Sequence[str],
        body: bytes,
        access: Access = OPEN_ACCESS,
        verb: Verb = Verb.READ,
        request_id: str = "",
        perform: "Perform | None" = None,
        quota: Quota | None = None,
    ) -> None:
        self.quota = quota
        self._request = request
        self._perform = perform
        self.request_id = request_id
        self._form: Format | None = None
        self.parameters = parameters
        self.body = body
        self.access = access
        self.verb = verb

    def delay_max_ms(self, of_topic: int) -> int:
        """How far ahead the caller may schedule where the topic allows so much."""
        own = 0 if self.quota is None else self.quota.max_delay_ms
        return min(own, of_topic) if own else of_topic

    def bounded(self, topic: Topic) -> Topic:
        """The topic as this caller may use it."""
        max_delay_ms = self.delay_max_ms(topic.max_delay_ms)
        is_less = max_delay_ms < topic.max_delay_ms
        return topic.bounded(max_delay_ms) if is_less else topic

    @property
    def max_pending(self) -> int:
        """How many events may be pending in the caller's namespace; 0: any number."""
        return 0 if self.quota is None else self.quota.max_pending

    def check_topic(self, topic: str | None) -> None:
        """Raise Refusal unless the caller may do this with the topic; with all of
        them if that is None."""
        self.access.check(self.verb, topic)

    def refused_topics(self, names: Collection[str]) -> dict[str, Exception]:
        """Those with which the caller may not do this, and what to say of each."""
        access, verb = self.access, self.verb
        if access.allows(verb):
            return {}
        return {
            name: access.refusal(verb, name)
            for name in names
            if not access.allows(verb, name)
        }

    @property
    def data_form(self) -> Format | None:
        """How to write payload; None for a caller who may not see it."""
        return self.answer_form if self.access.may_view_payload else None

    async def inner(
        self,
        method: str,
        target: str,
        body: object = None,
        sent: Mapping[str, str] = _NOTHING_SENT,
    ) -> Answer:
        """What another route answers to the same caller, in JSON; `sent` are headers.

        Raises what its handler raises, and Refusal where the caller may not call it.
        """
        assert self._perform is not None
        content = b"" if body is None else encode_json(body)
        return await self._perform(self, method, target, content, sent)

    @property
    def headers(self) -> headers.Headers:
        return self._request.headers

    @property
    def path(self) -> str:
        """The target of the request, as it was sent."""
        return self._request.raw_path

    @property
    def connection(self) -> Connection:
        connection = self._request.protocol
        assert isinstance(connection, Connection)
        return connection

    @property
    def form(self) -> Format:
        """How the body is written. Raises Refusal for what we do not read."""
        if self._form is None:
            self._form = headers.body_format(self._request.headers, self.body)
        return self._form

    @property
    def answer_form(self) -> Format:
        """How to write the answer."""
        sent = self.form if self.body else Format.JSON
        return headers.answer_format(self._request.headers, sent)

    def read(self, reader: Reader[T]) -> T:
        """The body as a struct. Raises Refusal."""
        return reader.read(self.body, self.form)

    def query(self, *names: str) -> Query:
        """The query parameters, of which only `names` are known. Raises Refusal."""
        return Query.parse(self._request.rel_url.raw_query_string, names)

    def answer(
        self, status: int, value: msgspec.Struct, headers: Headers = ()
    ) -> Answer:
        """An answer in the form that the caller wants."""
        if self.answer_form is Format.MSGPACK:
            return Answer(status, _encode_msgpack(value), headers, _MSGPACK_TYPE)
        return Answer(status, encode_json(value), headers)


class InnerCall(Call):
    """A call that another one makes, for the same caller: JSON in, JSON out."""

    __slots__ = ("_sent", "_target")

    def __init__(
        self,
        outer: Call,
        target: str,
        parameters: Sequence[str],
        body: bytes,
        verb: Verb,
        sent: Mapping[str, str],
    ) -> None:
        super().__init__(
            outer._request,
            parameters,
            body,
            outer.access,
            verb,
            outer.request_id,
            outer._perform,
            outer.quota,
        )
        self._target = target
        self._sent = CIMultiDictProxy(CIMultiDict(sent))

    @property
    def headers(self) -> headers.Headers:
        return self._sent

    @property
    def path(self) -> str:
        return self._target

    @property
    def form(self) -> Format:
        return Format.JSON

    @property
    def answer_form(self) -> Format:
        return Format.JSON

    def query(self, *names: str) -> Query:
        return Query.parse(self._target.partition("?")[2], names)
