"""Runs of the cyclic garbage collector after tasks have ended (docs/decisions/0004)."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

from flinkpy.rpc.endpoint import RpcEndpoint, TimerHandle

#: How long after the end of a task to collect: its thread has mostly returned from its last function by then.
SETTLE_MS = 100
#: The maximum number of collections for tasks that are still referenced, by their threads on a busy machine or for ever
#: by user code. The pause doubles each time, so the last collection comes after almost a minute.
MAX_COLLECTIONS = 9
#: The pause after a collection, as a multiple of its CPU time. So collections take a twentieth of the time at most,
#: also if many small jobs run beside a job with much state.
PAUSE_PER_COLLECTION = 20


class EndedTaskCollector:
    """Frees the objects of ended tasks, including their state.

    The objects of a task refer to one another, so only the cyclic collector frees them. It counts objects, not bytes: a
    hundred small jobs may end before it runs, and the keyed state of each stays in memory until then.

    Thread: main thread.

    Args:
        collect: collects all generations.
    """

    def __init__(self, endpoint: RpcEndpoint, collect: Callable[[], object] = gc.collect) -> None:
        self._endpoint = endpoint
        self._collect = collect
        self._timer: TimerHandle | None = None
        self._not_before_ms = 0
        #: The tasks that have ended and may not have been freed.
        self._ended: list[weakref.ref[object]] = []
        self._num_collections = 0

    def on_task_ended(self, task: object | None = None) -> None:
        """Schedules a collection. Tasks that end together share one.

        Args:
            task: it is referred to by its objects. If it is not freed by the collection, another one follows.
        """
        if task is not None:
            self._ended.append(weakref.ref(task))
        self._num_collections = 0
        self._schedule(SETTLE_MS)

    def _schedule(self, wait_ms: int) -> None:
        if self._timer is None:
            wait_ms = max(wait_ms, self._not_before_ms - self._endpoint.clock.monotonic_ms())
            self._timer = self._endpoint.schedule(wait_ms, self._run)

    def _run(self) -> None:
        self._timer = None
        clock = self._endpoint.clock
        # CPU time: a busy machine is no reason for a longer pause.
        begin_ns = clock.thread_time_ns()
        self._collect()
        took_ms = (clock.thread_time_ns() - begin_ns) // 1_000_000
        self._not_before_ms = clock.monotonic_ms() + took_ms * PAUSE_PER_COLLECTION
        self._num_collections += 1
        self._ended = [reference for reference in self._ended if reference() is not None]
        if self._num_collections == MAX_COLLECTIONS:
            self._ended.clear()
        if self._ended:
            self._schedule(SETTLE_MS * 2**self._num_collections)
