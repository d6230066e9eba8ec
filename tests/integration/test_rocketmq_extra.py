"""What is installed: without the extra [grpc] all else works, and the option says what
is missing; what is made of the protocol is current."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOME = ROOT / "api" / "halfpast_api" / "rocketmq"
WITHOUT = """
import sys
for name in ("grpc", "google", "google.protobuf", "cryptography"):
    sys.modules[name] = None
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_api_needs_nothing_of_it() -> None:
    done = run("import halfpast_api.app, halfpast_api.cli_serve, halfpast_api.suite")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["dev", "up", "api"])
def test_the_option_says_what_to_install(command: str, tmp_path: Path) -> None:
    done = run(
        "from halfpast_api.cli import main; main()",
        *(command, "--data", str(tmp_path / "d"), "--grpc", "127.0.0.1:0"),
    )
    assert done.returncode == 2, done.stderr
    assert "pip install 'halfpast[grpc]'" in done.stderr
    assert not (tmp_path / "d").exists()


def test_what_is_made_of_the_protocol_is_current(tmp_path: Path) -> None:
    """After a change of protocol.proto run scripts/grpc-protocol."""
    script = ROOT / "scripts" / "grpc-protocol"
    subprocess.run([script, tmp_path], check=True, env={"PYTHON": sys.executable})
    for name in ("protocol.binpb", "protocol.pyi"):
        assert (tmp_path / name).read_bytes() == (HOME / name).read_bytes(), name
