"""The packages of the audits, and of what they read, as one zip for Spark's workers.

A worker then runs the same release as the driver. It needs Python with NumPy, PyArrow
and msgspec besides.
"""

import zipfile
from importlib.util import find_spec
from pathlib import Path

PACKAGES = (
    "halfpast_chronos",
    "halfpast_core_store",
    "halfpast_spark",
    "halfpast_txn",
    "halfpast_wheel",
)
NAME = "halfpast-audit.zip"


def write_zip(folder: Path) -> Path:
    """Write it to this folder; gives where it is."""
    target = folder / NAME
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            archive.mkdir(package)  # Python finds no package without its folder
            for path in sorted(folder_of(package).glob("*.py")):
                archive.write(path, f"{package}/{path.name}")
    return target


def folder_of(package: str) -> Path:
    """Where an installed package lies."""
    spec = find_spec(package)
    assert spec is not None, f"{package} is installed with this one"
    assert spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))
