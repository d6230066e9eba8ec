"""What the templates of the console may call."""

from pathlib import Path
from typing import Final
from urllib.parse import quote

from halfpast_api.console import wording
from halfpast_api.console.assets import Assets
from halfpast_api.console.rendering import Pages

TEMPLATES: Final = Path(__file__).parent / "templates"

_TONES: Final = {
    "good": (
        "delivered committed done open closed enabled live ok ready up op consumed "
        "fired occurred resumed redriven active"
    ),
    "calm": "scheduled rescheduled replaced promoted running begun added begin",
    "warn": (
        "prepared paused rate_limited draining starting half_open retrying held late "
        "failed check checked read_only stale open_circuit no_answer"
    ),
    "bad": "dead parked lost disabled revoked expired down away error",
}
_TONE_OF: Final = {
    what: tone for tone, words in _TONES.items() for what in words.split()
}

ICONS: Final = {
    "pulse": "M1.5 8.5h3l2-5 3 9 2-4h3",
    "clock": "M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13M8 4.5V8l2.3 1.5",
    "scale": "M8 2v12M4 14h8M2.5 5h11M2.5 5 1 9.5h4L3.5 5M12.5 5 11 9.5h4L13.5 5",
    "cross": "M3 3l10 10M13 3 3 13",
    "stack": "M8 2 2 5l6 3 6-3-6-3M2 8l6 3 6-3M2 11l6 3 6-3",
    "repeat": (
        "M2 7.5a4 4 0 0 1 4-4h7M11 1l2 2.5L11 6M14 8.5a4 4 0 0 1-4 4H3M5 15l-2-2.5L5 10"
    ),
    "inbox": "M2 9.5h3.5l1 2h3l1-2H14M2 9.5V13h12V9.5L12 3H4L2 9.5",
    "outbox": "M8 9V2M5 4.5 8 1.8l3 2.7M2 9.5V14h12V9.5",
    "hook": "M2 4h9M8.5 1.5 11 4 8.5 6.5M14 12H5M7.5 9.5 5 12l2.5 2.5",
    "gear": "M2 4h6M12 4h2M10 2.2v3.6M2 8h2M8 8h6M6 6.2v3.6M2 12h7M13 12h1M11 10.2v3.6",
    "check": "M2 8.5 6 12.5 14 3.5",
    "key": "M10.5 9.5a4 4 0 1 0-3.6-2.2L1.5 12.7V14.5h2.2v-1.7h1.7v-1.7h1.4L8.5 9.4",
    "book": "M3 2h9.5v12H3.8A1.3 1.3 0 0 1 3 12.9V2M3 11.5h9.5M5.5 5H10",
    "gauge": "M2 12.5a6.5 6.5 0 1 1 12 0M8 10.5 11 6",
    "tag": "M2 2h5.5L14 8.5 8.5 14 2 7.5V2M5 5h.01",
}


def console_names(assets: Assets) -> dict[str, object]:
    """All that every template knows."""
    names: dict[str, object] = {
        name: getattr(wording, name)
        for name in (
            *("number", "compact", "rate", "percent", "duration", "instant", "minute"),
            *("iso", "field", "plural", "words", "size", "sentence"),
        )
    }
    return names | {
        "asset": assets.url,
        "icons": ICONS,
        "tone": tone,
        "path_of": path_of,
    }


def console_pages(assets: Assets) -> Pages:
    """The templates of the console."""
    pages = Pages((TEMPLATES,), console_names(assets))
    add_parts(pages)
    return pages


def add_parts(pages: Pages) -> None:
    """Templates call the parts that all pages are made of as `ui.badge(...)`."""
    pages.add_parts("ui", "ui.html")


def tone(word: str) -> str:
    """How grave a state or a happening looks."""
    return _TONE_OF.get(word, "plain")


def path_of(*segments: str) -> str:
    """`/console/topics/a%25b`"""
    return "/console/" + "/".join(quote(it, safe="") for it in segments)
