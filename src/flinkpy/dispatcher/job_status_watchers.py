"""JobStatusWatchers: the clients that follow one job's status. Thread: the Dispatcher's loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from flinkpy.common.states import JobState

#: Changes a slow client may lag behind; beyond it the oldest are skipped, never the last.
MAX_BACKLOG = 64


class JobStatusWatchers:
    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[JobState]] = set()

    def publish(self, status: JobState) -> None:
        for queue in self._queues:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(status)

    async def watch(self, present: JobState) -> AsyncIterator[JobState]:
        """The present status, then every change, up to and with a terminal one."""
        queue: asyncio.Queue[JobState] = asyncio.Queue(MAX_BACKLOG)
        self._queues.add(queue)
        try:
            status = present
            yield status
            while not status.is_terminal:
                status = await queue.get()
                yield status
        finally:
            self._queues.discard(queue)
