"""DeferredSink: a sink whose committables are collected where it writes, to be committed elsewhere.

Spark tells the driver only what attempts have given that succeeded. So what a failed or a slower attempt has prepared
is never committed. Every attempt writes as a job of its own, so that none takes what another has prepared for its own:
of two that run at a time, nobody knows which one will count. What is certain to be left over is removed before a writer
begins, since it may hold locks, and all of it when everything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flinkpy.common.clock import SystemClock
from flinkpy.connector_api.serializer import write_versioned
from flinkpy.connector_api.sink import CommitRequest, Committer, SinkBase, SinkWriter, WriterContext

#: Spark gives a task up after so many attempts, unless told otherwise.
USUAL_ATTEMPTS = 4


def job_id_of_attempt(job_id: str, region_attempt: int, task_attempt: int) -> str:
    """What a sink's writer has for the id of its job."""
    return f"{job_id}-{region_attempt}-{task_attempt}"


def job_ids_before(job_id: str, region_attempt: int, task_attempt: int, may_speculate: bool) -> list[str]:
    """Those of attempts that are over when this one begins; of earlier attempts of the region, as many as are usual."""
    before = [(earlier, task) for earlier in range(region_attempt) for task in range(USUAL_ATTEMPTS)]
    if not may_speculate:
        before += [(region_attempt, earlier) for earlier in range(task_attempt)]
    return [job_id_of_attempt(job_id, *attempts) for attempts in before]


class AttemptContext:
    """Implements WriterContext: `context`, as the first attempt of a job with this id."""

    attempt_number = 0

    def __init__(self, context: WriterContext, job_id: str) -> None:
        self._context = context
        self.job_id = job_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class DeferredSink(SinkBase):
    """Writes as `sink`; the committables, serialized, are appended to `committables`.

    `job_id`: see `job_id_of_attempt`. `job_ids_before`: see there.
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
        """Called before `create_writer`. None where the sink has none: what it writes is visible at once, and is
        written again when Spark tries again.
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
    """Have the sink remove what attempts have left that did not count, as it does when a job is restored: a writer
    that is not the first attempt of its job begins with that.
    """
    indexes = list(subtasks)
    for job_id in job_ids:
        for subtask_index in indexes:
            context = _LaterContext(job_id, subtask_index, max(parallelism, subtask_index + 1), input_type)
            sink.create_writer(context).close()


class _LaterContext:
    """Implements WriterContext."""

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
