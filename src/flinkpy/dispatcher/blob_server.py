"""BlobServer: the endpoint around the BlobStore. It knows nothing of jobs, and unpickles nothing.

Thread: one asyncio loop; files are read and written on I/O threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.dispatcher.blob_store import BlobStore
from flinkpy.rpc.server import CallContext

T = TypeVar("T")

#: Uploads and downloads wait for the disk, not for each other.
MAX_IO_THREADS = 4


class BlobServer:
    """Serves `BlobServer` of dispatcher.proto."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store
        self._executor = ThreadPoolExecutor(MAX_IO_THREADS, thread_name_prefix="blob-io")

    async def put_blob(self, requests: AsyncIterator[pb.BlobChunk], context: CallContext) -> pb.BlobKey:
        """Stores the concatenated chunks; an upload that breaks off leaves nothing."""
        writer = self._store.begin()
        try:
            async for chunk in requests:
                await self._run(partial(writer.write, chunk.data))
            return pb.BlobKey(sha256=await self._run(writer.finish))
        finally:
            writer.abort()

    async def get_blob(self, request: pb.BlobKey, context: CallContext) -> AsyncIterator[pb.BlobChunk]:
        pieces = self._store.read(request.sha256)
        try:
            while (piece := await self._run(lambda: next(pieces, None))) is not None:
                yield pb.BlobChunk(data=piece)
        finally:
            await self._run(pieces.close)  # type: ignore[attr-defined]

    def close(self) -> None:
        self._executor.shutdown(wait=True)

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)
