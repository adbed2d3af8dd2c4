"""The cyclic garbage collector of a process that makes millions of small objects a second (docs/decisions/0004)."""

from __future__ import annotations

import gc
from collections.abc import Callable

from flinkpy.rpc.endpoint import RpcEndpoint, TimerHandle

#: Container objects made before the youngest generation is looked at; CPython's 700 is a fraction of one batch, and
#: the rows of a batch are alive until the batch has been processed, so looking sooner finds nothing to free.
YOUNG_THRESHOLD = 100_000
#: Collections of one generation before the next older one is looked at too; CPython's is 10.
OLDER_THRESHOLD = 20
#: How long after the end of a task its objects are looked for: its thread has left its last function by then.
SETTLE_MS = 100
#: The pause after a collection, as a multiple of the processor time it took: where small jobs come and go beside one
#: that has much state, looking takes a twentieth of the time at most.
PAUSE_PER_COLLECTION = 20


def tune_garbage_collector() -> None:
    """Leave alone what was imported, and look for cycles per batches rather than per some hundred rows."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_THRESHOLD, OLDER_THRESHOLD, OLDER_THRESHOLD)


class EndedTaskCollector:
    """Frees the objects of tasks that have ended, and the state among them.

    The objects of a task refer to one another, so only the cyclic collector frees them. It counts objects, not bytes:
    a hundred small jobs may end before it looks, and each keeps a dict with all its keyed state until then.

    Thread: main thread.

    Args:
        collect: looks at all generations.
    """

    def __init__(self, endpoint: RpcEndpoint, collect: Callable[[], object] = gc.collect) -> None:
        self._endpoint = endpoint
        self._collect = collect
        self._timer: TimerHandle | None = None
        self._not_before_ms = 0

    def on_task_ended(self) -> None:
        """Collect soon. Tasks that end together are collected together."""
        if self._timer is None:
            wait_ms = max(SETTLE_MS, self._not_before_ms - self._endpoint.clock.monotonic_ms())
            self._timer = self._endpoint.schedule(wait_ms, self._run)

    def _run(self) -> None:
        self._timer = None
        clock = self._endpoint.clock
        # Time of the processor: one that others use is no reason to wait longer.
        begin_ns = clock.thread_time_ns()
        self._collect()
        took_ms = (clock.thread_time_ns() - begin_ns) // 1_000_000
        self._not_before_ms = clock.monotonic_ms() + took_ms * PAUSE_PER_COLLECTION
