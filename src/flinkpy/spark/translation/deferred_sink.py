"""The sinks of a region: DeferredSink writes in a Python worker, and PassSinkJob runs the Spark job of a pass's sinks.

Spark commits nothing. A DeferredSink collects its committables, the region passes them on when all of its sinks are
written, and native tasks commit them. The driver only gets the results of successful attempts, so the committables of a
failed or slower attempt are never committed. Every attempt writes under a job id of its own, so that it does not touch
the leftovers of an attempt that runs at the same time and may be the one that counts. Leftovers that cannot count any
more are removed before a writer starts, because they may hold locks. All others are removed after the last write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flinkpy.common.clock import SystemClock
from flinkpy.connector_api.serializer import write_versioned
from flinkpy.connector_api.sink import CommitRequest, Committer, SinkBase, SinkWriter, WriterContext

#: Spark's default for the number of attempts of a task.
USUAL_ATTEMPTS = 4


def job_id_of_attempt(job_id: str, region_attempt: int, task_attempt: int) -> str:
    """Returns the job id under which a writer writes."""
    return f"{job_id}-{region_attempt}-{task_attempt}"


def job_ids_before(job_id: str, region_attempt: int, task_attempt: int, may_speculate: bool) -> list[str]:
    """Returns the job ids of attempts that have ended. Assumes USUAL_ATTEMPTS for earlier attempts of the region."""
    before = [(earlier, task) for earlier in range(region_attempt) for task in range(USUAL_ATTEMPTS)]
    if not may_speculate:
        before += [(region_attempt, earlier) for earlier in range(task_attempt)]
    return [job_id_of_attempt(job_id, *attempts) for attempts in before]


class AttemptContext:
    """Implements WriterContext for the first attempt of a job with another id."""

    attempt_number = 0

    def __init__(self, context: WriterContext, job_id: str) -> None:
        self._context = context
        self.job_id = job_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class DeferredSink(SinkBase):
    """Writes to a sink and collects the committables instead of committing them.

    Args:
        committables: the serialized committables are appended to it.
        job_id: as from `job_id_of_attempt`.
        job_ids_before: as from the function `job_ids_before`.
    """

    def __init__(
        self, sink: SinkBase, committables: list[bytes], job_id: str, job_ids_before: Iterable[str] = ()
    ) -> None:
        self._sink = sink
        self._committables = committables
        self._job_id = job_id
        self._job_ids_before = tuple(job_ids_before)
        self._has_committer = False

    def create_writer(self, context: WriterContext) -> SinkWriter:
        if self._has_committer:
            subtasks = [context.subtask_index]
            remove_leftovers(self._sink, context.input_type, self._job_ids_before, subtasks, context.parallelism)
        mine: Any = AttemptContext(context, self._job_id)
        return self._sink.create_writer(mine)

    def create_committer(self) -> Committer | None:
        """Returns a committer that collects committables; None if the sink has none. Called before `create_writer`.

        The output of a sink without committer is visible at once, and is written again in another attempt.
        """
        committer = self._sink.create_committer()
        if committer is None:
            return None
        committer.close()
        self._has_committer = True
        return _CollectingCommitter(self._sink, self._committables)

    @property
    def sink_function(self) -> Any:
        return self._sink.sink_function

    @property
    def coordinator_provider(self) -> Any:
        return self._sink.coordinator_provider


class _CollectingCommitter(Committer):
    def __init__(self, sink: SinkBase, committables: list[bytes]) -> None:
        self._serializer = sink.committable_serializer
        self._committables = committables

    def commit(self, requests: list[CommitRequest]) -> None:
        self._committables.extend(write_versioned(self._serializer, request.get_committable()) for request in requests)


def remove_leftovers(
    sink: SinkBase, input_type: Any, job_ids: Iterable[str], subtasks: Iterable[int], parallelism: int
) -> None:
    """Removes the leftovers of attempts that do not count.

    A sink removes them when it creates a writer for a later attempt of the same job.
    """
    indexes = list(subtasks)
    for job_id in job_ids:
        for subtask_index in indexes:
            context = _LaterContext(job_id, subtask_index, max(parallelism, subtask_index + 1), input_type)
            sink.create_writer(context).close()


class _LaterContext:
    """Implements WriterContext for a second attempt of a job."""

    attempt_number = 1
    restored_checkpoint_id = None
    is_checkpointing_enabled = False
    is_exactly_once = False
    waits_for_final_checkpoint = False

    def __init__(self, job_id: str, subtask_index: int, parallelism: int, input_type: Any) -> None:
        self.job_id = job_id
        self.subtask_index = subtask_index
        self.parallelism = parallelism
        self.input_type = input_type

    def current_processing_time(self) -> int:
        return SystemClock().now_ms()

    def schedule_after(self, delay_ms: int, action: Callable[[int], None]) -> None:
        return

    def send_event_to_coordinator(self, event: Any) -> None:
        return

    def notify_writable(self) -> None:
        return
