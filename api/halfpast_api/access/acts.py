"""Which calls are acts that go on record, and what is told of them."""

from typing import Any, Final, Protocol

import msgspec

from halfpast_api.access.access import Access
from halfpast_api.access.trail import Trail
from halfpast_api.access.verbs import Verb
from halfpast_api.answer import Answer
from halfpast_api.call import Call

_ADMINISTRATIVE: Final = frozenset({Verb.MANAGE, Verb.ADMIN})
_CHANGES: Final = frozenset({"PUT", "PATCH", "DELETE"})
_OBJECT_LENGTH_MAX: Final = 300


class Acted(Protocol):
    """What is asked of a `Route`."""

    @property
    def method(self) -> str: ...

    @property
    def template(self) -> str: ...

    @property
    def verb(self) -> Verb: ...

    @property
    def is_page(self) -> bool: ...


class Acts:
    """Puts acts on the trail."""

    def __init__(self, trail: Trail) -> None:
        self._trail = trail

    def counts(self, route: Acted, access: Access) -> bool:
        """Whether a call that is not safe goes on record: if it administers, or if a
        person makes it. What a form of the console does is told by the calls that the
        form makes; what programs publish and consume all day is not told."""
        if route.is_page or route.verb is Verb.OPEN:
            return False
        if route.verb in _ADMINISTRATIVE:
            return True
        is_person = access.session is not None or access.kind == "user"
        return is_person and route.verb is not Verb.CONSUME

    def shown_before(self, route: Acted, target: str) -> str:
        """The path by which the object is looked at before it is changed."""
        path = target.partition("?")[0]
        if route.method in _CHANGES:
            return path
        head, colon, _ = path.rpartition(":")
        return head if colon and route.template.rpartition("/")[2][:1] == "{" else ""

    async def record(
        self, route: Acted, call: Call, answer: Answer, before: bytes
    ) -> None:
        """It has been done."""
        await self._trail.record(
            call.access,
            f"{route.method} {route.template}",
            _object(call, answer),
            request_id=call.request_id,
            status=answer.status,
            before=_decoded(before),
            after=_decoded(answer.content),
        )


def _object(call: Call, answer: Answer) -> str:
    """What it was done to: the names in the path, or what has been made."""
    names = "/".join(call.parameters)
    if not names:
        names = answer.extra("Location").rpartition("/")[2]
    return names[:_OBJECT_LENGTH_MAX]


def _decoded(content: bytes) -> Any:
    if not content:
        return None
    for decode in (msgspec.json.decode, msgspec.msgpack.decode):
        try:
            return decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return None
