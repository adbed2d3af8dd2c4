"""TcpProxy: forwards connections to a port of this host, until it is cut. Then it drops them and refuses others."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

_HOST = "127.0.0.1"
_CHUNK = 1 << 16


class TcpProxy:
    """Thread: a loop of its own; all methods are called from others.

    Args:
        target: the port that connections are forwarded to.
        port: the port to listen at; 0: any free one.
    """

    def __init__(self, target: int, port: int = 0) -> None:
        self._target = target
        self.port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.resume()

    def resume(self) -> None:
        """Accepts connections at the same port as before."""
        self._call(self._listen())

    def cut(self) -> None:
        """Closes the port and drops all connections."""
        self._call(self._cut())

    def close(self) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine: object) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)  # type: ignore[arg-type]

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._forward, _HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._open):
            writer.transport.abort()
        own = asyncio.current_task()
        pending = [task for task in asyncio.all_tasks() if task is not own]
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            there_reader, there_writer = await asyncio.open_connection(_HOST, self._target)
        except OSError:
            self._drop(writer)
            return
        self._open.add(there_writer)
        try:
            await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))
        finally:
            self._drop(writer)
            self._drop(there_writer)

    def _drop(self, writer: asyncio.StreamWriter) -> None:
        self._open.discard(writer)
        writer.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


@contextlib.contextmanager
def tcp_proxy(target: int, port: int = 0) -> Iterator[TcpProxy]:
    proxy = TcpProxy(target, port)
    try:
        yield proxy
    finally:
        proxy.close()
