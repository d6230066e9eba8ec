"""What MkDocs calls: the reference is written from the code, at each build.

Pages of docs/reference do not lie in the repository, so they cannot be stale.
"""

import re
import sys
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scripts.reference.cli_page import cli_page
from scripts.reference.configuration_page import configuration_page
from scripts.reference.http_page import http_page, problems_page, schemas_page
from scripts.reference.sdk_page import sdk_page

_WRITERS: Final = {
    "reference/http.md": http_page,
    "reference/schemas.md": schemas_page,
    "reference/problems.md": problems_page,
    "reference/cli.md": cli_page,
    "reference/sdk.md": sdk_page,
    "reference/configuration.md": configuration_page,
}
_FENCE: Final = re.compile(r"^(\s*```\w+) .*$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are written now."""
    for path, write in _WRITERS.items():
        files.append(File.generated(config, path, content=write()))
    return files


def on_page_markdown(
    markdown: str, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Leave out of code blocks what only the tests read."""
    return _FENCE.sub(r"\1", markdown)
