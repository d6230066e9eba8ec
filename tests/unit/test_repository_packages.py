"""pyproject.toml, the folders and the pinned requirements say the same."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.wheel import WheelBuilder

PLUGIN = "client/halfpast_pytest"
"""A package beside another one, so that pytest loads nothing of that."""

PACKAGES = {
    "api": "halfpast_api",
    "chronos": "halfpast_chronos",
    "client": "halfpast",
    "core_store": "halfpast_core_store",
    "loadtest": "halfpast_loadtest",
    "spark": "halfpast_spark",
    "txn": "halfpast_txn",
    "wheel": "halfpast_wheel",
}


@pytest.fixture(scope="module")
def project(repository_root: Path) -> dict[str, Any]:
    return tomllib.loads((repository_root / "pyproject.toml").read_text("utf-8"))


def test_every_package_is_shipped_and_editable(project: dict[str, Any]) -> None:
    build = project["tool"]["hatch"]["build"]
    packages = {f"{folder}/{package}" for folder, package in PACKAGES.items()}
    assert set(build["dev-mode-dirs"]) == set(PACKAGES)
    assert set(build["targets"]["wheel"]["packages"]) == packages | {
        PLUGIN,
        "migrations",
    }
    linted = project["tool"]["importlinter"]["root_packages"]
    assert set(linted) == set(PACKAGES.values())


def test_built_wheel_holds_every_module_and_migration(
    repository_root: Path, repository_files: list[Path]
) -> None:
    homes = {f"{folder}/{package}": package for folder, package in PACKAGES.items()}
    homes[PLUGIN] = "halfpast_pytest"
    homes["migrations"] = "halfpast_api/_migrations"
    expected: set[str] = set()
    for path in repository_files:
        for source, target in homes.items():
            if path.is_relative_to(repository_root / source):
                inner = path.relative_to(repository_root / source).as_posix()
                expected.add(f"{target}/{inner}")
    files = WheelBuilder(str(repository_root)).recurse_included_files()
    assert {file.distribution_path for file in files} == expected


@pytest.mark.parametrize("folder", PACKAGES)
def test_package_is_typed_and_says_what_it_is(
    repository_root: Path, folder: str
) -> None:
    package = repository_root / folder / PACKAGES[folder]
    assert (package / "py.typed").is_file()
    assert (package / "__init__.py").read_text("utf-8").startswith('"""')


@pytest.mark.parametrize("name", ["core", "dev", "image", "spark"])
def test_requirements_are_pinned_by_hash(repository_root: Path, name: str) -> None:
    requirements = _pinned(repository_root, name)
    assert requirements
    for requirement, hash_count in requirements.items():
        assert re.fullmatch(r"[a-z0-9-]+==\S+( ; .+)?", requirement)
        assert hash_count > 0, requirement


def test_requirements_cover_the_dependencies(
    repository_root: Path, project: dict[str, Any]
) -> None:
    wanted = {_name(line) for line in project["project"]["dependencies"]}
    groups = project["dependency-groups"]
    core = {_name(line) for line in _pinned(repository_root, "core")}
    assert wanted | {_name(line) for line in groups["build"]} <= core
    dev = {_name(line) for line in _pinned(repository_root, "dev")}
    assert core | {_name(line) for group in groups.values() for line in group} <= dev
    assert "pyspark" not in dev
    image = {_name(line) for line in _pinned(repository_root, "image")}
    extras = project["project"]["optional-dependencies"]
    for extra in ("audit", "grpc", "oidc", "otel", "parquet", "postgres"):
        assert {_name(line) for line in extras[extra]} <= image, extra


def test_a_package_has_the_same_version_everywhere(repository_root: Path) -> None:
    core, dev, image, spark = (
        {line.partition(" ;")[0] for line in _pinned(repository_root, name)}
        for name in ("core", "dev", "image", "spark")
    )
    assert core <= dev
    assert core <= image <= dev
    assert core <= spark


def _pinned(root: Path, name: str) -> dict[str, int]:
    """Each requirement of requirements/`name`.txt, with its number of hashes."""
    found: dict[str, int] = {}
    current = ""
    lines = (root / "requirements" / f"{name}.txt").read_text("utf-8").splitlines()
    for line in (line.rstrip("\\ ") for line in lines):
        if re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}", line):
            found[current] += 1
        elif line and not line.lstrip().startswith("#"):
            current = line
            found[current] = 0
    return found


def _name(requirement: str) -> str:
    """The distribution's name: what comes before extras, version and marker."""
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None, requirement
    return re.sub(r"[-_.]+", "-", match[0]).lower()
