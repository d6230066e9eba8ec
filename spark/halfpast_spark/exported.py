"""What has been exported, for those who read it."""

from pathlib import Path

from .export_manifest import Manifest, read_manifest
from .job_errors import NothingToAudit


def need_export(folder: str) -> Manifest:
    """Raises NothingToAudit, ForeignExport."""
    manifest = read_manifest(Path(folder))
    if manifest is None or not manifest.files:
        raise NothingToAudit(
            folder, "nothing has been exported to it; 'halfpast audit export' does it"
        )
    return manifest
