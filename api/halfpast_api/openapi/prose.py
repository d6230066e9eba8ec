"""The little Markdown that descriptions use, as HTML: `code`, **bold**, lists."""

import re
from collections.abc import Iterator
from typing import Final

from markupsafe import Markup, escape

_INLINE: Final = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|(?<!\w)\*([^*\s][^*]*)\*")


def html_of(text: str) -> Markup:
    """Paragraphs and lists."""
    return Markup("\n").join(_blocks(text))


def line_of(text: str) -> Markup:
    """Text within a line."""
    parts: list[Markup] = []
    end = 0
    for match in _INLINE.finditer(text):
        parts.append(escape(text[end : match.start()]))
        code, bold, slanted = match.groups()
        if code is not None:
            parts.append(Markup("<code>{}</code>").format(code))
        elif bold is not None:
            parts.append(Markup("<strong>{}</strong>").format(bold))
        else:
            parts.append(Markup("<em>{}</em>").format(slanted))
        end = match.end()
    parts.append(escape(text[end:]))
    return Markup("").join(parts)


def _blocks(text: str) -> Iterator[Markup]:
    for block in text.strip().split("\n\n"):
        lines = block.split("\n")
        if all(line.startswith("- ") for line in lines):
            items = Markup("").join(
                Markup("<li>{}</li>").format(line_of(line[2:])) for line in lines
            )
            yield Markup("<ul>{}</ul>").format(items)
        elif block:
            yield Markup("<p>{}</p>").format(line_of(" ".join(lines)))
