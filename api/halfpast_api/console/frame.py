"""What all pages of the console have in common: frame, errors, forms, live parts.

A page is a function from a visit to a view. A form is a function that does something
and says where to go on: what it does is done once, whatever the browser's back and
reload buttons do afterwards. (What holds a secret that is shown once is the exception:
that is the answer itself, so that it is kept nowhere.) Where a form is refused, its
page is shown again with what was typed and what was wrong.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

from multidict import istr

from halfpast_api.access.verbs import Verb
from halfpast_api.answer import Answer, Headers
from halfpast_api.call import Call
from halfpast_api.console import said
from halfpast_api.console.form import Form
from halfpast_api.console.live_stream import STREAM_TYPE, LiveStreams, Part
from halfpast_api.console.navigation import MENU, current
from halfpast_api.console.rendering import HTML, PAGE_HEADERS, Pages
from halfpast_api.console.viewer import Viewer
from halfpast_api.console.visit import Redirect, View, Visit
from halfpast_api.problems import Problem, as_refusal, problem_of

Handler = Callable[[Call], Awaitable[Answer]]
Show = Callable[[Visit], Awaitable[View | Redirect | Answer]]
Act = Callable[[Visit, Form], Awaitable[Redirect | View]]

_ACCEPT: Final = istr("Accept")
LIVE_BLOCK: Final = "live"


class Frame:
    """Makes handlers of pages and forms."""

    def __init__(
        self,
        pages: Pages,
        streams: LiveStreams,
        signs: Callable[[], Mapping[str, int]],
        is_shared: Callable[[], bool] = lambda: False,
        virtual_ms: Callable[[], int | None] = lambda: None,
    ) -> None:
        """`virtual_ms`: what a virtual clock shows, where the server goes by one."""
        self._pages = pages
        self._streams = streams
        self._signs = signs
        self._is_shared = is_shared
        self._virtual_ms = virtual_ms

    def page(self, show: Show, pages: Pages | None = None) -> Handler:
        """The handler of a GET. `pages`: templates of its own."""

        async def answer(call: Call) -> Answer:
            visit = self._visit(call)
            wants_stream = call.headers.get(_ACCEPT, "").startswith(STREAM_TYPE)
            try:
                view = await show(visit)
            except Exception as error:
                if wants_stream:
                    raise
                view = _problem_view(_problem(visit, error), _headers(error))
            if isinstance(view, Redirect):
                return _go(view)
            if isinstance(view, Answer):
                return view
            if wants_stream:
                return self._stream(visit, show, view, pages or self._pages)
            return self._answer(visit, view, pages or self._pages)

        return answer

    def form(self, act: Act, show: Show) -> Handler:
        """The handler of a POST, whose page is what `show` gives."""

        async def answer(call: Call) -> Answer:
            visit = self._visit(call)
            form = Form([])
            try:
                form = Form.parse(call.headers, call.body)
                done = await act(visit, form)
            except Exception as error:
                return await self._refused(visit, form, _problem(visit, error), show)
            if isinstance(done, Redirect):
                return _go(done)
            # It is at the address of a form, where there is nothing to follow.
            return self._answer(visit, replace(done, live_ms=0), self._pages)

        return answer

    def _visit(self, call: Call) -> Visit:
        return Visit(call, Viewer(call.access, self._is_shared()))

    async def _refused(
        self, visit: Visit, form: Form, problem: Problem, show: Show
    ) -> Answer:
        """The page of a form again."""
        again = visit.refused(form, problem)
        try:
            view = await show(again)
        except Exception as error:
            _problem(visit, error)
            view = _problem_view(problem)
        if not isinstance(view, View):
            view = _problem_view(problem)
        shown = View(view.template, view.values, problem.status)
        return self._answer(again, shown, self._pages)

    def _answer(self, visit: Visit, view: View, pages: Pages) -> Answer:
        heard = said.heard(visit.call.headers)
        values = {**self._values(visit, view), "said": heard}
        headers = (*view.headers, *(() if heard is None else (said.forget(),)))
        return pages.answer(view.status, view.template, values, headers)

    def _stream(self, visit: Visit, show: Show, first: View, pages: Pages) -> Answer:
        if not pages.has_block(first.template, LIVE_BLOCK):
            return Answer(204, b"", PAGE_HEADERS)  # so browsers do not come again
        fresh: list[View] = [first]

        async def make() -> Part:
            view = fresh.pop() if fresh else await show(visit)
            assert isinstance(view, View)
            values = self._values(visit, view)
            text = pages.render_block(view.template, LIVE_BLOCK, values)
            return Part(text, is_last=not view.live_ms)

        headers = tuple(it for it in PAGE_HEADERS if it[0] != "Content-Type")
        return self._streams.open(make, first.live_ms, headers)

    def _values(self, visit: Visit, view: View) -> dict[str, object]:
        viewer = visit.viewer
        path = visit.call.path
        return {
            "viewer": viewer,
            "menu": MENU,
            "here": current(path),
            "live_url": path if view.live_ms and visit.form is None else "",
            "signs": self._signs() if viewer.sees_server else {},
            "problem": visit.problem,
            "said": None,
            "whole_problem": False,
            "virtual_ms": self._virtual_ms(),
            "viewer_verbs": [verb for verb in Verb if viewer.can(verb)],
            **view.values,
        }


def _problem(visit: Visit, error: Exception) -> Problem:
    """What it says to people, in names as they know them. Raises what nobody raised on
    purpose."""
    refusal = as_refusal(error)
    if refusal is None:
        raise error
    problem = problem_of(refusal)
    if namespace := visit.viewer.namespace:
        problem.detail = problem.detail.replace(f"{namespace}%", "")
    return problem


def _headers(error: Exception) -> Headers:
    """Such as when to come again."""
    refusal = as_refusal(error)
    return () if refusal is None else tuple(refusal.headers)


def _problem_view(problem: Problem, headers: Headers = ()) -> View:
    values = {"problem": problem}
    return View("problem.html", values, problem.status, headers=headers)


def _go(to: Redirect) -> Answer:
    headers = [*PAGE_HEADERS, ("Location", to.url), *to.headers]
    if to.said is not None:
        headers.append(said.say(to.said))
    return Answer(303, b"", headers, HTML)
