"""What there is in the console, in the order of the menu."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Item:
    """A line of the menu. `verb`: the right without which it is left out; `sign`: the
    count that is shown beside it, if there is one to show."""

    name: str
    path: str
    icon: str
    verb: str = "read"
    sign: str = ""
    sign_words: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """Lines that belong together."""

    name: str
    items: tuple[Item, ...]


HOME: Final = "/console"

MENU: Final = (
    Part(
        "Now",
        (
            Item("Overview", HOME, "pulse", sign="late", sign_words="late"),
            Item("Events", "/console/events", "clock"),
            Item(
                "Transactions",
                "/console/transactions",
                "scale",
                sign="parked",
                sign_words="parked",
            ),
            Item("Dead letters", "/console/dead-letters", "cross"),
            Item("Operations", "/console/operations", "gear"),
        ),
    ),
    Part(
        "Set up",
        (
            Item("Topics", "/console/topics", "stack"),
            Item("Schedules", "/console/schedules", "repeat"),
            Item("Consumer groups", "/console/groups", "inbox"),
            Item("Producer groups", "/console/producer-groups", "outbox"),
            Item("Endpoints", "/console/endpoints", "hook"),
        ),
    ),
    Part(
        "Look after",
        (
            Item("Audits", "/console/audits", "check"),
            Item("Keys", "/console/keys", "key", "admin"),
            Item("Namespaces", "/console/namespaces", "tag", "admin"),
            Item("Limits", "/console/limits", "gauge"),
            Item("Trail", "/console/trail", "book", "admin"),
        ),
    ),
)


def current(path: str) -> str:
    """The path of the line that a page belongs to."""
    path = path.partition("?")[0]
    paths = [item.path for part in MENU for item in part.items]
    fitting = [
        it
        for it in paths
        if path == it or (it != HOME and path.startswith((f"{it}/", f"{it}:")))
    ]
    return max(fitting, key=len, default="")
