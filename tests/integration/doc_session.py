"""Somebody who tries everything that a page says, from its top to its end.

All blocks of a page share a folder, the names of its Python blocks, and a database with
a table of orders. Ids that a page shortens (`01a1f75e-…`) are the last one that was
answered. What a page shows of an answer must be so: its words, not its numbers.
"""

import ast
import asyncio
import inspect
import json
import os
import re
import subprocess
import tomllib
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import yaml
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from tests.acceptance.rocketmq_clients import COMMANDS, NODE, PYTHON
from tests.acceptance.transaction_reader import Base, Order
from tests.integration.doc_blocks import Block, commands_of

import halfpast
from halfpast_loadtest.rocketmq_client import client_environment

_ADDRESS = re.compile(r"(http://)?(?:localhost|127\.0\.0\.1):7080")
_ENDPOINTS = re.compile(r"127\.0\.0\.1:8081")
_RECEIVER = re.compile(r"https://[a-z-]+\.example(?:\.com)?\b")
_SHORTENED = re.compile(r"\b[0-9a-f]{8}-…")
_ID = re.compile(r'"id":\s*"([0-9a-f]{8}-[0-9a-f-]{27})"')
_WORD = re.compile(r'"(\w+)":\s*"([a-z_]+)"')
_TIMEOUT_S = 30.0
_OUTSIDE_TIMEOUT_S = 90.0
_OUTSIDE = {"python": PYTHON, "javascript": NODE}
_FAIL_ON_PROBLEMS = "fail-with-body\nsilent\nshow-error\n"


class PageFailed(AssertionError):
    """A block does not do what its page says."""


class _Taker(BaseHTTPRequestHandler):
    """Takes whatever is posted."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nobody wants to know."""


class PageSession:
    """For one page. Addresses under `.example` are those of somebody who takes all
    that is posted. `endpoints`: where RocketMQ's clients are served."""

    def __init__(
        self, address: str, folder: Path, programs: Path, endpoints: str = ""
    ) -> None:
        self._address = address
        self._endpoints = endpoints
        self._receiver = ""
        self._folder = folder
        self._last_id = ""
        (folder / ".curlrc").write_text(_FAIL_ON_PROBLEMS)
        due = datetime.now(UTC) + timedelta(days=30)
        event = {"topic": "t", "data": 1, "deliver_at": due.isoformat()}
        (folder / "reminders.ndjson").write_text(json.dumps(event))
        self._environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HALFPAST_URL": address,
            "CURL_HOME": str(folder),
            "NO_COLOR": "1",
            "XDG_CONFIG_HOME": str(folder),
        }
        self._path = folder / "orders.sqlite"
        Base.metadata.create_all(create_engine(f"sqlite:///{self._path}"))
        self._names: dict[str, Any] = {}
        self._standing: dict[str, Any] = {}

    def run(self, blocks: list[Block]) -> None:
        """All blocks, in their order. Raises PageFailed."""
        with ThreadingHTTPServer(("127.0.0.1", 0), _Taker) as receiver:
            self._receiver = f"http://127.0.0.1:{receiver.server_port}"
            thread = Thread(target=receiver.serve_forever, name="receiver")
            thread.start()
            try:
                asyncio.run(self._run(blocks))
            finally:
                receiver.shutdown()
                thread.join()

    async def _run(self, blocks: list[Block]) -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{self._path}")
        try:
            async with (
                halfpast.Client(self._address) as client,
                AsyncSession(engine) as session,
            ):
                self._standing = {
                    "__name__": "page",
                    "asyncio": asyncio,
                    "halfpast": halfpast,
                    "datetime": datetime,
                    "timedelta": timedelta,
                    "UTC": UTC,
                    "client": client,
                    "session": session,
                    "engine": engine,
                    "Base": Base,
                    "Order": Order,
                }
                for block in blocks:
                    if not block.reason:
                        await self._try(block)
        finally:
            await engine.dispose()

    async def _try(self, block: Block) -> None:
        try:
            await self._one(block)
        except PageFailed:
            raise
        except Exception as error:
            raise PageFailed(f"{block}: {error!r}\n{block.text}") from error

    async def _one(self, block: Block) -> None:
        if block.client:
            await self._outside(block)
            return
        match block.language:
            case "bash":
                await self._shell(block, block.text, "")
            case "console":
                for command in commands_of(block.text):
                    await self._shell(block, command.text, command.output)
            case "python":
                await self._python(block)
            case "json":
                for line in (
                    [block.text] if "\n}" in block.text else block.text.split("\n")
                ):
                    if line.strip():
                        json.loads(line.replace("…", ""))
            case "yaml":
                yaml.safe_load(block.text)
            case "toml":
                tomllib.loads(block.text)
            case "text" | "http":
                pass
            case other:
                raise PageFailed(f"{block}: nobody knows how to try {other!r}")

    async def _outside(self, block: Block) -> None:
        """With a client of somebody else, in an environment of its own."""
        command, more = COMMANDS[_OUTSIDE[block.language]]()
        source = self._folder / f"block-{block.line}"
        source.write_text(_ENDPOINTS.sub(self._endpoints, block.text))
        environment = {**client_environment(self._folder), **more}
        environment["NODE_PATH"] = f"{more.get('CLIENT_HOME')}/node_modules"
        done = await asyncio.to_thread(
            subprocess.run,
            [command[0], str(source)],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_OUTSIDE_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise PageFailed(f"{block}: {done.stdout}{done.stderr}")

    async def _shell(self, block: Block, command: str, shown: str) -> None:
        command = self._fill(command).replace(".venv/bin/halfpast", "halfpast")
        done = await asyncio.to_thread(
            subprocess.run,
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        said = done.stdout + done.stderr
        if done.returncode != 0:
            raise PageFailed(f"{block}: status {done.returncode}\n{command}\n{said}")
        self._learn(done.stdout)
        if shown.lstrip().startswith("{"):
            missing = set(_WORD.findall(shown)) - set(_WORD.findall(said))
            if missing:
                raise PageFailed(f"{block}: {sorted(missing)} is not in\n{said}")

    async def _python(self, block: Block) -> None:
        source = self._fill(block.text)
        self._names |= self._standing  # which a block may have used up
        if "asyncio.run(" in source:
            await asyncio.to_thread(self._execute, source, block)
            return
        work = self._execute(source, block)
        if inspect.isawaitable(work):
            async with asyncio.timeout(_TIMEOUT_S):
                await work

    def _execute(self, source: str, block: Block) -> Any:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(source, str(block), "exec", flags=flags)
        return eval(code, self._names)

    def _fill(self, text: str) -> str:
        def address(match: re.Match[str]) -> str:
            return self._address if match[1] else self._address.partition("//")[2]

        text = _RECEIVER.sub(self._receiver, _ADDRESS.sub(address, text))
        return _SHORTENED.sub(self._last_id, text)

    def _learn(self, output: str) -> None:
        if found := _ID.search(output):
            self._last_id = found[1]
