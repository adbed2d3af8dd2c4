"""The sinks of a region: DeferredSink writes in a Python worker, and PassSinkJob runs the Spark job of a pass's sinks.

Spark commits nothing. A DeferredSink collects its committables, the region passes them on when all of its sinks are
written, and native tasks commit them. The driver only gets the results of successful attempts, so the committables of a
failed or slower attempt are never committed. Every attempt writes under its own job id, so that it does not touch
the leftovers of an attempt that runs at the same time and may be the one that counts.

After the last write, the leftovers of all attempts that do not count are removed. A sink that implements
SupportsRemovingUncommitted finds them itself. This matters when executors are lost: Spark then runs tasks again under
the same attempt number, while an earlier task with this number may still run or may even count. For other sinks, the
leftovers of all attempt numbers but the one that counts are removed. Theirs are also removed before a writer starts,
if their attempt cannot count any more, because they may hold locks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from flinkpy.common.clock import SystemClock
from flinkpy.common.errors import CommitError, ConfigurationError, SparkError
from flinkpy.configuration.spark_options import CONF_PREFIX
from flinkpy.connector_api.serializer import read_versioned, write_versioned
from flinkpy.connector_api.sink import (
    CommitRequest,
    Committer,
    SinkBase,
    SinkWriter,
    SupportsRemovingUncommitted,
    WriterContext,
)
from flinkpy.graph.operator_specs import SinkSpec
from flinkpy.records.batch import Batch
from flinkpy.spark.blocks import SinkReport, decode_block
from flinkpy.spark.stream_frame import BLOCK_COLUMN, TakeAccumulators
from flinkpy.spark.translation.program import JobFacts
from flinkpy.streaming.operators.batch_sink_operators import job_id_of_sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flinkpy.graph.spark_region import SparkNode


#: Spark's option to start second attempts of slow tasks.
SPECULATION = "spark.speculation"
#: Spark's default for the number of attempts of a task.
USUAL_ATTEMPTS = 4


def job_id_of_attempt(job_id: str, region_attempt: int, task_attempt: int) -> str:
    """Returns the job id under which a writer writes. `job_id` is that of the sink (`job_id_of_sink`)."""
    return f"{job_id}-{region_attempt}-{task_attempt}"


def job_ids_before(job_id: str, region_attempt: int, task_attempt: int, may_speculate: bool) -> list[str]:
    """Returns the job ids of attempts that have ended. Assumes USUAL_ATTEMPTS for earlier attempts of the region."""
    before = [(earlier, task) for earlier in range(region_attempt) for task in range(USUAL_ATTEMPTS)]
    if not may_speculate:
        before += [(region_attempt, earlier) for earlier in range(task_attempt)]
    return [job_id_of_attempt(job_id, *attempts) for attempts in before]


def check_concurrent_attempts(nodes: Iterable[SparkNode]) -> None:
    """Checks that all sinks allow Spark to run two attempts of a subtask at the same time.

    A writer that takes over what another attempt of its subtask has written, as that of KafkaSink does when it starts,
    would destroy the output of the attempt that counts.

    Raises:
        ConfigurationError: a sink does not allow it.
    """
    for node in nodes:
        if isinstance(node.spec, SinkSpec) and not node.spec.sink.supports_concurrent_attempts:
            raise ConfigurationError(
                f"{node.name}: {SPECULATION} is on, but this sink does not support two attempts of a subtask at the "
                f"same time: set {CONF_PREFIX}{SPECULATION} to false, or run the sink with set_batch_backend('native')",
                details={"option": f"{CONF_PREFIX}{SPECULATION}", "value": "true"},
            )


def check_repeated_stage(nodes: Iterable[SparkNode]) -> None:
    """Checks that the output of sinks is complete although Spark has repeated a stage that wrote them.

    A repeated stage numbers the attempts of its tasks from 0 again, while tasks of its first attempt still run. So two
    writers of a subtask had the same job id, and one may have removed what the other has prepared.

    Raises:
        SparkError: a sink with a committer cannot tell apart what the two have written. The region has to run again.
    """
    for node in nodes:
        sink: Any = getattr(node.spec, "sink", None)
        if sink is None or sink.supports_concurrent_attempts or isinstance(sink, SupportsRemovingUncommitted):
            continue
        committer = sink.create_committer()
        if committer is not None:
            committer.close()
            raise SparkError(
                f"{node.name}: executors were lost while this sink was written, and Spark repeated its stage. Two "
                "attempts of a subtask may have written under the same name, so the sink has to be written again: set "
                "a restart strategy"
            )


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
        if self._has_committer and not isinstance(self._sink, SupportsRemovingUncommitted):
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


_LOG = logging.getLogger(__name__)


class SinkJob(Protocol):
    """Writes one or more sinks by one Spark job. Each method is called once. Thread: one at a time."""

    @property
    def name(self) -> str: ...

    @property
    def frame(self) -> DataFrame:
        """The frame whose computation writes the sinks."""
        ...

    def write(self, take_accumulators: TakeAccumulators) -> int:
        """Runs the job. Returns the number of records written.

        Raises: the errors of Spark (see `spark.errors.failure_in`).
        """
        ...

    @property
    def sinks(self) -> list[SparkNode]: ...

    def remove_leftovers(self, may_have_retried: bool) -> None:
        """Removes the leftovers of attempts that do not count.

        Args:
            may_have_retried: False if every task has run exactly once.
        """
        ...

    def committables(self) -> Iterator[tuple[int, tuple[bytes, ...]]]:
        """Yields the node id of a sink and the serialized committables of a successful attempt."""
        ...


class PassSinkJob:
    """The sinks of one pass.

    Args:
        frame: rows of PASS_SCHEMA with `__out` SINKS. Without sinks they hold only accumulators.
        may_speculate: True if Spark may run two attempts of a task at the same time.
    """

    def __init__(
        self,
        name: str,
        frame: DataFrame,
        sinks: list[SparkNode],
        job: JobFacts,
        may_speculate: bool,
    ) -> None:
        self.name = name
        self.frame = frame
        self.sinks = sinks
        self._job = job
        self._may_speculate = may_speculate
        self._reports: list[SinkReport] = []

    def write(self, take_accumulators: TakeAccumulators) -> int:
        for block in self.frame.select(BLOCK_COLUMN).toArrow().column(BLOCK_COLUMN):
            content = decode_block(block.as_buffer())
            if isinstance(content, SinkReport):
                self._reports.append(content)
            elif not isinstance(content, Batch):
                take_accumulators(content)
        self._reports.sort(key=lambda report: report.subtask_index)
        return sum(report.num_records for report in self._reports)

    def remove_leftovers(self, may_have_retried: bool) -> None:
        if not may_have_retried and self._job.attempt_number == 0:
            return
        for number, node in enumerate(self.sinks):
            sink: SinkBase = node.spec.sink  # type: ignore[attr-defined]
            committer = sink.create_committer()
            if committer is None:
                continue
            committer.close()
            self._remove_leftovers(node, [report for report in self._reports if report.sink == number])

    def committables(self) -> Iterator[tuple[int, tuple[bytes, ...]]]:
        for report in self._reports:
            if report.committables:
                yield self.sinks[report.sink].id, report.committables

    def _remove_leftovers(self, node: SparkNode, reports: list[SinkReport]) -> None:
        """Removes the leftovers of attempts of Spark's tasks and of the region.

        They are invisible, so the job succeeds even if they cannot be removed.
        """
        sink: SinkBase = node.spec.sink  # type: ignore[attr-defined]
        job_id = job_id_of_sink(self._job.job_id, node.operator_id)
        if isinstance(sink, SupportsRemovingUncommitted):
            self._remove_uncommitted(node.name, sink, job_id, reports)
            return
        task_attempts = max((report.attempt_number for report in reports), default=0) + 1 + self._may_speculate
        region_attempts = self._job.attempt_number + 1
        if task_attempts == region_attempts == 1:
            return
        attempts = [
            (region_attempt, task_attempt)
            for region_attempt in range(region_attempts)
            for task_attempt in range(max(task_attempts, USUAL_ATTEMPTS if region_attempts > 1 else 1))
        ]
        try:
            for report in reports:
                counts = (self._job.attempt_number, report.attempt_number)
                job_ids = [job_id_of_attempt(job_id, *attempt) for attempt in attempts if attempt != counts]
                subtasks = [report.subtask_index]
                remove_leftovers(sink, node.inputs[0].type_info, job_ids, subtasks, node.parallelism)
        except Exception:  # noqa: BLE001 - a connector may raise anything
            _LOG.warning("%s: the leftovers of earlier attempts could not be removed", node.name, exc_info=True)

    def _remove_uncommitted(
        self, name: str, sink: SupportsRemovingUncommitted, job_id: str, reports: list[SinkReport]
    ) -> None:
        serializer = sink.committable_serializer  # type: ignore[attr-defined]
        counted = [
            read_versioned(serializer, committable, f"a committable of {name}")
            for report in reports
            for committable in report.committables
        ]
        try:
            sink.remove_uncommitted(job_id, counted)
        except CommitError:
            raise
        except Exception:  # noqa: BLE001 - a connector may raise anything
            _LOG.warning("%s: the leftovers of earlier attempts could not be removed", name, exc_info=True)
