"""FlameGraphs: the last samples of the vertices and subtasks whose flame graphs somebody looks at.

A request for a flame graph never waits for samples: it gets the last ones, and starts to take new ones if there are
none or they are older than `rest.flamegraph.refresh-interval`. Callers share the samples.

Source: org.apache.flink.runtime.webmonitor.threadinfo.VertexThreadInfoTracker.
Thread: one asyncio loop. The graphs are made on I/O threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import Any

from flinkpy._proto import thread_samples_pb2 as pb
from flinkpy.common.errors import FlinkError
from flinkpy.rest.forms.flame_graph import flame_graph_root
from flinkpy.rest.messages.job_details import VertexFlameGraph
from flinkpy.rest.options import FlameGraphOptions

logger = logging.getLogger(__name__)

#: Values of `endTimestamp` without samples. They are Flink's.
VERTEX_TERMINATED = -1
FLAME_GRAPHS_DISABLED = -2
WAITING_FOR_SAMPLES = -3

#: Flame graphs that are kept. The samples of a vertex have up to some megabytes, usually some ten kilobytes.
MAX_FLAME_GRAPHS = 64
#: The pause after a sampling that failed or found no threads, so that a page that polls does not repeat it at once.
RETRY_PAUSE_MS = 2_000
#: How much longer than a sampling the Dispatcher may take to answer. It waits twice as long as planned by itself.
_EXTRA_TIMEOUT_S = 30.0

#: Job, vertex, and subtask or None for all subtasks.
Key = tuple[str, str, int | None]


class SampledVertex:
    """The last samples of a vertex or subtask."""

    def __init__(self) -> None:
        self._samples: pb.JobThreadSamples | None = None
        self._graphs: dict[str, asyncio.Future[VertexFlameGraph]] = {}
        self._error = ""
        #: When the last sampling ended; None: there was none.
        self.ended_ms: int | None = None
        self.used_ms = 0
        self.sampling: asyncio.Task[None] | None = None

    def is_due(self, options: FlameGraphOptions, now_ms: int) -> bool:
        """True if a sampling should start."""
        if self.sampling is not None:
            return False
        if self.ended_ms is None:
            return True
        pause_ms = options.refresh_interval_ms
        if self._error or self._samples is None:
            pause_ms = min(pause_ms, RETRY_PAUSE_MS)
        return now_ms - self.ended_ms >= pause_ms

    def sampled(self, samples: pb.JobThreadSamples) -> None:
        """Takes new samples. Without any, e.g. because the tasks have just ended, the old ones stay."""
        self._error = ""
        if any(one.stacks for one in samples.task_executors):
            self._samples = samples
            self._graphs.clear()
        elif samples.unreachable:
            self._error = f"no answer from {', '.join(samples.unreachable)}"

    def failed(self, error: str) -> None:
        self._error = error

    async def graph(self, kind: str) -> VertexFlameGraph:
        """Returns the flame graph of the last samples. `kind` is `full`, `on_cpu` or `off_cpu`."""
        is_sampling = self.sampling is not None
        samples = self._samples
        if samples is None:
            return VertexFlameGraph(end_timestamp=WAITING_FOR_SAMPLES, is_sampling=is_sampling, error=self._error)
        making = self._graphs.get(kind)
        if making is None:
            making = self._graphs[kind] = asyncio.ensure_future(asyncio.to_thread(_flame_graph, samples, kind))
        made = await asyncio.shield(making)
        made.is_sampling, made.error = is_sampling, self._error
        return made


class FlameGraphs:
    """The flame graphs that are kept, the one that was asked for longest ago first."""

    def __init__(self) -> None:
        self._known: OrderedDict[Key, SampledVertex] = OrderedDict()
        self._cleaning: asyncio.TimerHandle | None = None

    def find(self, key: Key, dispatcher: Any, options: FlameGraphOptions, now_ms: int) -> SampledVertex:
        """Returns the samples of a vertex or subtask, and starts a sampling if they are missing or too old."""
        known = self._known.setdefault(key, SampledVertex())
        self._known.move_to_end(key)
        known.used_ms = now_ms
        self._forget(options, now_ms)
        if known.is_due(options, now_ms):
            known.sampling = asyncio.get_running_loop().create_task(
                self._sample(key, known, dispatcher, options, now_ms), name=f"samples of {key}"
            )
        return known

    def _forget(self, options: FlameGraphOptions, now_ms: int) -> None:
        """Forgets what nobody has looked at for `rest.flamegraph.cleanup-interval`, and what is too much."""
        while self._known:
            key, oldest = next(iter(self._known.items()))
            is_unused = now_ms - oldest.used_ms >= options.cleanup_interval_ms
            if not is_unused and len(self._known) <= MAX_FLAME_GRAPHS:
                break
            del self._known[key]
        if self._known and self._cleaning is None:
            self._cleaning = asyncio.get_running_loop().call_later(
                options.cleanup_interval_ms / 1000, self._clean, options, now_ms + options.cleanup_interval_ms
            )

    def _clean(self, options: FlameGraphOptions, now_ms: int) -> None:
        self._cleaning = None
        self._forget(options, now_ms)

    async def _sample(
        self, key: Key, known: SampledVertex, dispatcher: Any, options: FlameGraphOptions, now_ms: int
    ) -> None:
        job_id, vertex_id, subtask_index = key
        request = pb.ThreadSamplesRequest(
            job_id=job_id,
            vertex_id=vertex_id,
            subtask_index=subtask_index,
            num_samples=options.num_samples,
            delay_ms=options.delay_ms,
            max_depth=options.stack_depth,
        )
        begun_s = asyncio.get_running_loop().time()
        try:
            timeout_s = 2 * options.duration_ms / 1000 + _EXTRA_TIMEOUT_S
            known.sampled(await dispatcher.request_thread_samples(request, timeout_s=timeout_s))
        except FlinkError as error:
            logger.info("sampling vertex %s of job %s failed: %s", vertex_id, job_id, error)
            known.failed(error.message)
        finally:
            known.ended_ms = now_ms + int((asyncio.get_running_loop().time() - begun_s) * 1000)
            known.sampling = None


def _flame_graph(samples: pb.JobThreadSamples, kind: str) -> VertexFlameGraph:
    answers = [one for one in samples.task_executors if one.stacks]
    return VertexFlameGraph(
        end_timestamp=max(one.end_timestamp_ms for one in answers),
        start_timestamp=min(one.start_timestamp_ms for one in answers),
        data=flame_graph_root(answers, kind),
        num_subtasks=sum(one.num_subtasks for one in answers),
        unreachable=sorted(samples.unreachable),
    )
