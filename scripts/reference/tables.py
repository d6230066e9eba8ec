"""Markdown tables."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, empty for no rows."""
    lines = [_line(row) for row in rows]
    if not lines:
        return ""
    return "\n".join([_line(head), _line(["---"] * len(head)), *lines]) + "\n"


def code(text: str) -> str:
    """As code, where there is something."""
    return f"`{text}`" if text else ""


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
