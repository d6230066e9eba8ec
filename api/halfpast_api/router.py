"""Which handler a path belongs to: a tree of path segments, walked by dict look-ups.

A template is made of literal segments (`events`, also `events:batch`), parameters
(`{topic}`) and, as last segment, a parameter with a verb (`{id}:deliver-now`).
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import unquote

from halfpast_api.access.verbs import Reach, Verb, default_reach, default_verb
from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.load.urgency import urgency_of
from halfpast_api.problems import Refusal

Handler = Callable[[Call], Awaitable[Answer]]


class Route:
    """One method of one resource. `body_max` of 0 means that it takes no body.

    `verb` and `reach` are what a caller must be allowed; left out, they are the
    stricter of what they may be. `is_page`: it is for people, so whoever must log in
    first is sent to where that is done. `topic_at`: which parameter is the topic.
    `urgency`: how soon it is refused when there are too many.
    """

    __slots__ = (
        *("body_max", "handler", "is_page", "method", "reach", "template"),
        *("topic_at", "urgency", "verb"),
    )

    def __init__(
        self,
        method: str,
        template: str,
        handler: Handler,
        body_max: int = 0,
        *,
        verb: Verb | None = None,
        reach: Reach | None = None,
        is_page: bool = False,
    ) -> None:
        self.method = method
        self.template = template
        self.handler = handler
        self.body_max = body_max
        self.verb = verb or default_verb(method)
        self.reach = reach or default_reach(template)
        self.is_page = is_page
        self.urgency = urgency_of(method, template, self.verb, is_page=is_page)
        names = [it for it in template.split("/") if it.startswith("{")]
        self.topic_at = names.index("{topic}") if "{topic}" in names else -1

    def __repr__(self) -> str:
        return f"Route({self.method} {self.template})"


class Routers(Protocol):
    """The routes of each namespace, which differ in their handlers alone."""

    def of(self, namespace: str) -> "Router": ...


@dataclass(slots=True)
class _Node:
    literals: dict[str, "_Node"] = field(default_factory=dict[str, "_Node"])
    parameter: "_Node | None" = None
    verbs: dict[str, "_Node"] = field(default_factory=dict[str, "_Node"])
    routes: dict[str, Route] = field(default_factory=dict[str, Route])


_EMPTY: Final = _Node()


class Router:
    """All routes of the API."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes: Final = tuple(routes)
        self._root = _Node()
        for route in self.routes:
            node = self._node_for(route.template)
            assert route.method not in node.routes, route
            node.routes[route.method] = route

    def find(self, method: str, target: str) -> tuple[Route, Sequence[str]]:
        """The route for a request target, and its parameters, unquoted.

        Raises Refusal: unknown_route, method_not_allowed, malformed_path.
        """
        path = target.partition("?")[0]
        node = self._root
        parameters: list[str] = []
        for segment in path[1:].split("/"):
            child = node.literals.get(segment)
            if child is None:
                name = segment
                child = node.parameter or _EMPTY
                if child.verbs and ":" in segment:
                    name, _, verb = segment.rpartition(":")
                    child = child.verbs.get(verb, _EMPTY)
                parameters.append(_unquoted(name) if "%" in name else name)
            node = child
        route = node.routes.get(method)
        if route is None:
            route = self._other(node, method, path)
        return route, parameters

    def _other(self, node: _Node, method: str, path: str) -> Route:
        if not node.routes:
            raise Refusal(
                "unknown_route",
                f"there is nothing at {_shown(path)}; check the path, for example "
                "POST /v1/topics/{topic}/events publishes an event",
            )
        if method == "HEAD" and "GET" in node.routes:
            return node.routes["GET"]
        allowed = ", ".join(sorted(node.routes))
        raise Refusal(
            "method_not_allowed",
            f"{_shown(path)} has no {method}; use {allowed}",
            headers=[("Allow", allowed)],
        )

    def _node_for(self, template: str) -> _Node:
        node = self._root
        for segment in template[1:].split("/"):
            if not segment.startswith("{"):
                node = node.literals.setdefault(segment, _Node())
                continue
            if node.parameter is None:
                node.parameter = _Node()
            node = node.parameter
            _, _, verb = segment.partition("}:")
            if verb:
                node = node.verbs.setdefault(verb, _Node())
        return node


def _unquoted(segment: str) -> str:
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise Refusal(
            "malformed_path",
            f"{_shown(segment)} is not UTF-8 once its percent signs are read; write a "
            "% itself as %25",
        ) from None


def _shown(text: str) -> str:
    safe = text.encode("ascii", "backslashreplace").decode()
    return repr(safe if len(safe) <= 80 else safe[:80] + "…")
