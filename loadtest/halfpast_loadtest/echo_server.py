"""The least that an HTTP service can do: read the body, answer a constant.

    python -m halfpast_loadtest.echo_server --answer-bytes N dev --data X --port N

aiohttp on uvloop, as Halfpast's own API is, without parsing or keeping anything:
the floor that the same generator finds under the publish and schedule benches.
"""

import argparse
import asyncio

import uvloop
from aiohttp import web

from halfpast_loadtest.server_process import HOST


def echo_application(answer_bytes: int) -> web.Application:
    """Answers every POST with `answer_bytes` bytes of JSON, /readyz with 200."""
    body = b'"' + b"x" * max(answer_bytes - 2, 0) + b'"'

    async def echo(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(status=201, body=body, content_type="application/json")

    async def ready(_: web.Request) -> web.Response:
        return web.Response()

    application = web.Application(client_max_size=64 * 1024 * 1024)
    application.router.add_get("/readyz", ready)
    application.router.add_post("/{path:.*}", echo)
    return application


async def serve(port: int, answer_bytes: int) -> None:
    """Serve until the process is killed."""
    runner = web.AppRunner(echo_application(answer_bytes), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, HOST, port).start()
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--answer-bytes", type=int, default=120)
    parser.add_argument("mode")
    parser.add_argument("--data")
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(arguments.port, arguments.answer_bytes))


if __name__ == "__main__":
    main()
