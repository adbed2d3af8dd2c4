"""A local user who can reach a service's port can neither close it nor learn a token at it."""

from __future__ import annotations

import subprocess
import sys

from flinkpy.rpc.server import EXIT_STATUS_SERVER_ENDED

_SERVER_THAT_BREAKS = """
import asyncio, grpc.aio
from flinkpy.rpc.server import RpcServer
from flinkpy.security import SecurityContext

async def main():
    server = RpcServer(bind_address="127.0.0.1", port=0, security=SecurityContext.insecure())
    await server.start()
    server._server._server.interceptors = "no tuple"
    async with grpc.aio.insecure_channel(server.address) as channel:
        await channel.unary_unary("/no.Service/Call")(b"", timeout=60)

asyncio.run(main())
"""


def test_a_process_whose_server_has_ended_ends_and_says_why() -> None:
    ended = subprocess.run([sys.executable, "-c", _SERVER_THAT_BREAKS], capture_output=True, text=True, timeout=60)
    assert ended.returncode == EXIT_STATUS_SERVER_ENDED
    assert "FATAL: the server at 127.0.0.1:" in ended.stderr
