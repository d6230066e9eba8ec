"""One request as its handler sees it, and the way to answer it."""

from collections.abc import Sequence
from typing import Final

import msgspec
from aiohttp import web

from halfpast_api import headers
from halfpast_api.answer import Answer, Headers, encode_json
from halfpast_api.connection import Connection
from halfpast_api.query import Query
from halfpast_api.reading import Format, Reader, T

_MSGPACK_TYPE: Final = "application/msgpack"
_encode_msgpack: Final = msgspec.msgpack.Encoder().encode


class Call:
    """A request with its body received."""

    __slots__ = ("_form", "_request", "body", "parameters")

    def __init__(
        self, request: web.BaseRequest, parameters: Sequence[str], body: bytes
    ) -> None:
        self._request = request
        self._form: Format | None = None
        self.parameters = parameters
        self.body = body

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
