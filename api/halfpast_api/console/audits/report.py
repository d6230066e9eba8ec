"""The same as the page, in one file to keep, send and print.

It loads nothing and may run no script but its own: those are named by digest in the
policy that it carries.
"""

from base64 import b64encode
from hashlib import sha256
from typing import Final

from markupsafe import Markup

from halfpast_api.console.assets import Assets
from halfpast_api.console.audits.dashboard import Dashboard
from halfpast_api.console.audits.tiles import tiles_of
from halfpast_api.console.audits.view import audit_pages, figures_block, page_values

_SCRIPTS: Final = ("uplot.iife.min.js", "plot_kit.js", "audits.js")
_STYLES: Final = ("uplot.min.css", "console.css", "audits.css")
_LICENCE: Final = "uplot.LICENSE.txt"


def render_report(dashboard: Dashboard) -> str:
    """HTML that needs nothing else."""
    assets = Assets()
    licence = f"/*!\n{assets.text(_LICENCE)}*/\n"
    scripts = [assets.text(name) for name in _SCRIPTS]
    scripts[0] = licence + scripts[0]
    styles = "\n".join(assets.text(name) for name in _STYLES)
    values = {
        **page_values(dashboard),
        "is_report": True,
        "tiles": tiles_of(dashboard),
        "figures": figures_block(dashboard, None),
        "policy": _policy(scripts, styles),
        "styles": Markup(styles),  # nosec B704 # our own files
        "scripts": [Markup(it) for it in scripts],  # nosec B704 # our own files
    }
    return audit_pages(assets).render("report.html", values)


def _policy(scripts: list[str], styles: str) -> str:
    """Nothing from elsewhere, and of what is here only what we have written."""
    allowed = " ".join(_digest(it) for it in scripts)
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_digest(styles)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
