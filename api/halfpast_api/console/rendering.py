"""Pages out of templates, under a policy that lets nothing in from elsewhere.

Everything that a template inserts is escaped. No page holds a script of its own: data
lie in a block that no browser runs, and scripts and styles are files of ours.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from halfpast_api.answer import Answer, Headers

HTML: Final = "text/html; charset=utf-8"
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
PAGE_HEADERS: Final[Headers] = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)


class Pages:
    """The templates of some folders, the first of which comes first, and what all of
    them may call."""

    def __init__(self, folders: Sequence[Path], names: Mapping[str, object]) -> None:
        self._templates = Environment(
            loader=FileSystemLoader(list(folders)),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        known: dict[str, Any] = self._templates.globals
        known.update(names)

    def add_parts(self, name: str, template: str) -> None:
        """Let all templates call the macros of one of them."""
        module: Any = self._templates.get_template(template).module
        self._templates.globals[name] = module

    def render(self, template: str, values: Mapping[str, object]) -> str:
        """The text of a page."""
        return self._templates.get_template(template).render(values)

    def has_block(self, template: str, block: str) -> bool:
        """Whether it has one of that name."""
        return block in self._templates.get_template(template).blocks

    def render_block(
        self, template: str, block: str, values: Mapping[str, object]
    ) -> str:
        """The text of one block of it alone."""
        found = self._templates.get_template(template)
        return "".join(found.blocks[block](found.new_context(dict(values))))

    def answer(
        self,
        status: int,
        template: str,
        values: Mapping[str, object],
        headers: Headers = (),
    ) -> Answer:
        """A page as the answer to a request."""
        content = self.render(template, values).encode()
        return Answer(status, content, (*PAGE_HEADERS, *headers), HTML)


def data_block(value: object) -> Markup:
    """JSON for a data block: nothing in it can end the block."""
    text = msgspec.json.encode(value).decode().replace("<", "\\u003c")
    return Markup(text)  # nosec B704 # JSON with every `<` escaped
