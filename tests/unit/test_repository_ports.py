"""The cores meet time, chance, threads and sockets only through their ports.

That is what lets the simulator run them on a virtual clock and disk. The modules at
the edge, which plug the real world in, are named here one by one.
"""

import ast
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

BANNED = {
    "asyncio",
    "concurrent",
    "multiprocessing",
    "random",
    "secrets",
    "select",
    "selectors",
    "socket",
    "socketserver",
    "subprocess",
    "threading",
    "time",
    "uuid",
    "uuid_utils",
    "uvloop",
}
# The calls that read the clock without importing `time`.
BANNED_CALLS = {"now", "today", "utcnow"}

CORES = {
    "core_store/halfpast_core_store": [
        "arrivals.py",
        "claim_waiters.py",
        "comebacks.py",
        "flusher.py",
        "follower.py",
        "future_answer.py",
        "real_*.py",
        "rpc.py",
        "rpc_client.py",
        "rpc_server.py",
        "service.py",
        "sync_thread.py",
        "topic_calls.py",
    ],
    "chronos/halfpast_chronos": [
        "bulk_service.py",
        "control_watch.py",
        "counting_service.py",
        "decider.py",
        "firer.py",
        "real_*.py",
        "recurring_service.py",
        "release_service.py",
        "service.py",
        "stall_watch.py",
        "tick.py",
    ],
    "txn/halfpast_txn": [
        "checker.py",
        "check_backs.py",
        "check_desk.py",
        "decider.py",
        "ender.py",
        "http_*.py",
        "questions.py",
        "real_*.py",
        "service.py",
        "shared_catch_up.py",
        "txn_rpc.py",
    ],
    "wheel/halfpast_wheel": [],
}


def test_cores_import_only_ports(repository_root: Path) -> None:
    found: list[str] = []
    for core, edges in CORES.items():
        for path in sorted((repository_root / core).rglob("*.py")):
            if any(fnmatch(path.name, edge) for edge in edges):
                continue
            where = path.relative_to(repository_root)
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found.extend(f"{where}:{line} {what}" for line, what in _leaks(tree))
    assert not found, "\n".join(found)


def test_leaks_are_seen() -> None:
    source = """
import os, time
import concurrent.futures
from uuid import uuid4
def later():
    from random import random
    return datetime.now()
"""
    leaks = [what for _, what in _leaks(ast.parse(source))]
    assert leaks == ["time", "concurrent", "uuid", "random", "datetime.now()"]


def test_own_modules_are_no_leak() -> None:
    source = """
from . import time
from .random import Rng
from halfpast_core_store.time import Clock
clock.now()
"""
    assert list(_leaks(ast.parse(source))) == []


def _leaks(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The banned imports and calls, as line and name."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr)]
    for node in sorted(nodes, key=lambda node: node.lineno):
        for name in _imported(node):
            if name in BANNED:
                yield node.lineno, name
        if _reads_clock(node):
            assert isinstance(node, ast.Call)
            yield node.lineno, f"{ast.unparse(node.func)}()"


def _imported(node: ast.AST) -> list[str]:
    """The top-level names of what `node` imports, if it is an absolute import."""
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        return [node.module.partition(".")[0]]
    return []


def _reads_clock(node: ast.AST) -> bool:
    """Whether `node` is a call such as `datetime.now()` or `datetime.date.today()`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    owner = ast.unparse(node.func.value).rpartition(".")[2]
    return node.func.attr in BANNED_CALLS and owner in {"date", "datetime"}
