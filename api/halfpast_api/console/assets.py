"""Scripts and styles: files beside this module, read once.

A page names them with a digest of their content, so that browsers may keep them for
ever and still have the new one after an upgrade.
"""

from hashlib import sha256
from pathlib import Path
from typing import Final

from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.problems import Refusal

PATH: Final = "/console/assets"
FOLDER: Final = Path(__file__).parent / "static"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_FOR_EVER: Final = "public, max-age=31536000, immutable"


class Assets:
    """All of them."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._contents = {
            path.name: path.read_bytes()
            for path in sorted(folder.iterdir())
            if path.suffix in _TYPES
        }
        self._digests = {
            name: sha256(content).hexdigest()[:16]
            for name, content in self._contents.items()
        }

    def url(self, name: str) -> str:
        """Where a page finds it."""
        return f"{PATH}/{name}?v={self._digests[name]}"

    def text(self, name: str) -> str:
        """What it holds."""
        return self._contents[name].decode()

    async def get(self, call: Call) -> Answer:
        """GET /console/assets/{name}"""
        name = call.parameters[0]
        content = self._contents.get(name)
        if content is None:
            raise Refusal("unknown_route", "there is no such file; reload the page")
        is_current = call.path.endswith(f"?v={self._digests[name]}")
        headers = (
            ("Cache-Control", _FOR_EVER if is_current else "no-cache"),
            ("X-Content-Type-Options", "nosniff"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
        )
        return Answer(200, content, headers, _TYPES[Path(name).suffix])
