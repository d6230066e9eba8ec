"""No path leads out of what is served, and no backup writes beside its folder."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio
from tests.integration.api_server import Api, serve
from tests.integration.api_stub import StubServices

from halfpast_api.backup.errors import DamagedBackup, NoBackup
from halfpast_api.backup.manifest import BackedUpFile, BackupManifest, Metadata
from halfpast_api.backup.restore_run import restore
from halfpast_api.backup.shelf import Shelf
from halfpast_api.backup.watch import Unwatched

STORE = "0123456789abcdef"
PREFIXES = ("/console/assets/", "/console/", "/docs/", "/v1/topics/", "/")
WAYS = (
    "../assets.py",
    "../../../../../../etc/passwd",
    "%2e%2e%2fassets.py",
    "..%2f..%2f..%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
    "%252e%252e%252fassets.py",
    "..\\assets.py",
    "..%5c..%5cassets.py",
    "....//assets.py",
    "%c0%ae%c0%ae/assets.py",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "console.css%00.py",
    "console.css/../../assets.py",
    "file:///etc/passwd",
    ".",
    "..",
    "..;/assets.py",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    services = StubServices()
    folder: Path = tmp_path_factory.mktemp("paths")
    async with serve(*services.all, folder) as api:
        yield api


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("way", WAYS)
async def test_no_path_leads_to_a_file_that_is_not_served(api: Api, way: str) -> None:
    for prefix in PREFIXES:
        request = f"GET {prefix}{way} HTTP/1.1\r\nHost: localhost\r\n"
        answer = await api.raw(request.encode() + b"Connection: close\r\n\r\n")
        assert b"root:" not in answer, prefix
        assert b"sha256" not in answer, prefix
        if prefix == "/console/assets/":
            assert answer[9:12] in (b"400", b"404"), answer


@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_served_is_served(api: Api) -> None:
    reply = await api.get("/console/assets/console.css")
    assert reply.status == 200
    assert reply.headers["X-Content-Type-Options"] == "nosniff"


def manifest(shelf: Shelf, path: str, sha256: str, size: int) -> BackupManifest:
    return BackupManifest(
        name=shelf.free_name(1),
        store_id=STORE,
        taken_ms=1,
        log_start=0,
        log_end=0,
        applied={},
        metadata=Metadata.NONE,
        files=(BackedUpFile(path=path, size=size, stored=size, sha256=sha256),),
    )


def has_only(folder: Path, *names: str) -> bool:
    return sorted(it.name for it in folder.iterdir()) == sorted(names)


@pytest.mark.parametrize(
    "path", ["../planted", "/planted", "log/../../planted", "a/b/c", "log/../planted"]
)
def test_a_backup_writes_nothing_beside_its_folder(tmp_path: Path, path: str) -> None:
    """Its list of files has a checksum, but whoever can write it can make that too."""
    shelf, data = Shelf(tmp_path / "backups"), tmp_path / "data"
    with shelf.writing(STORE):
        original = shelf.incoming / "original"
        original.write_bytes(b"planted")
        sha256 = shelf.pool.put_file(original, 7, Unwatched())
        shelf.finish(manifest(shelf, path, sha256, 7))
    with pytest.raises(DamagedBackup):
        restore(tmp_path / "backups", data, None, Unwatched())
    assert has_only(tmp_path, "backups")


@pytest.mark.parametrize("way", ["../../../secret", "{folder}/secret"])
def test_a_backup_takes_nothing_from_beside_its_pool(tmp_path: Path, way: str) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"not of a backup")
    shelf, data = Shelf(tmp_path / "backups"), tmp_path / "data"
    with shelf.writing(STORE):
        where = way.format(folder=tmp_path)
        (tmp_path / "backups" / "files" / where[:2]).mkdir(exist_ok=True)
        shelf.finish(manifest(shelf, "log/x", where, 15))
    with pytest.raises(DamagedBackup):
        restore(tmp_path / "backups", data, None, Unwatched())
    assert has_only(tmp_path, "backups", "secret")


@pytest.mark.parametrize("name", ["../planted", "{folder}/planted", "", "."])
def test_a_backup_is_chosen_among_those_that_there_are(
    tmp_path: Path, name: str
) -> None:
    shelf = Shelf(tmp_path / "backups")
    content = msgspec.json.encode(manifest(shelf, "a", "ab", 1))
    envelope = {
        "checksum": hashlib.sha256(content).hexdigest(),
        "content": msgspec.Raw(content),
    }
    (tmp_path / "planted.json").write_bytes(msgspec.json.encode(envelope))
    with shelf.writing(STORE):
        pass
    chosen = name.format(folder=tmp_path)
    with pytest.raises(NoBackup):
        restore(tmp_path / "backups", tmp_path / "data", chosen, Unwatched())
    assert not (tmp_path / "data").exists()
