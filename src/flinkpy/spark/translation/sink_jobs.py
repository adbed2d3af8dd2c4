"""The Spark jobs that write the sinks of a region.

They commit nothing: the committables leave the region when all of its sinks are written, and native tasks commit them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from flinkpy.connector_api.sink import SinkBase
from flinkpy.records.batch import Batch
from flinkpy.spark.blocks import SinkReport, decode_block
from flinkpy.spark.stream_frame import BLOCK_COLUMN, TakeAccumulators
from flinkpy.spark.translation.deferred_sink import USUAL_ATTEMPTS, job_id_of_attempt, remove_leftovers
from flinkpy.spark.translation.program import JobFacts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flinkpy.graph.spark_region import SparkNode


_LOG = logging.getLogger(__name__)


class SinkJob(Protocol):
    """Writes one or more sinks by one Spark job. Each method is called once. Thread: one at a time."""

    @property
    def name(self) -> str: ...

    def write(self, take_accumulators: TakeAccumulators) -> int:
        """Runs the job. Returns the number of records written.

        Raises: the errors of Spark (see `spark.errors.failure_in`).
        """
        ...

    def remove_leftovers(self) -> None:
        """Removes the leftovers of attempts that did not succeed."""
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
        self._frame = frame
        self._sinks = sinks
        self._job = job
        self._may_speculate = may_speculate
        self._reports: list[SinkReport] = []

    def write(self, take_accumulators: TakeAccumulators) -> int:
        for block in self._frame.select(BLOCK_COLUMN).toArrow().column(BLOCK_COLUMN):
            content = decode_block(block.as_buffer())
            if isinstance(content, SinkReport):
                self._reports.append(content)
            elif not isinstance(content, Batch):
                take_accumulators(content)
        self._reports.sort(key=lambda report: report.subtask_index)
        return sum(report.num_records for report in self._reports)

    def remove_leftovers(self) -> None:
        for number, node in enumerate(self._sinks):
            sink: SinkBase = node.spec.sink  # type: ignore[attr-defined]
            committer = sink.create_committer()
            if committer is None:
                continue
            committer.close()
            self._remove_leftovers(node, [report for report in self._reports if report.sink == number])

    def committables(self) -> Iterator[tuple[int, tuple[bytes, ...]]]:
        for report in self._reports:
            if report.committables:
                yield self._sinks[report.sink].id, report.committables

    def _remove_leftovers(self, node: SparkNode, reports: list[SinkReport]) -> None:
        """Removes the leftovers of attempts of Spark's tasks and of the region.

        They are invisible, so the job succeeds even if they cannot be removed.
        """
        task_attempts = max((report.attempt_number for report in reports), default=0) + 1 + self._may_speculate
        region_attempts = self._job.attempt_number + 1
        if task_attempts == region_attempts == 1:
            return
        attempts = [
            (region_attempt, task_attempt)
            for region_attempt in range(region_attempts)
            for task_attempt in range(max(task_attempts, USUAL_ATTEMPTS if region_attempts > 1 else 1))
        ]
        sink: SinkBase = node.spec.sink  # type: ignore[attr-defined]
        try:
            for report in reports:
                counts = (self._job.attempt_number, report.attempt_number)
                job_ids = [job_id_of_attempt(self._job.job_id, *attempt) for attempt in attempts if attempt != counts]
                subtasks = [report.subtask_index]
                remove_leftovers(sink, node.inputs[0].type_info, job_ids, subtasks, node.parallelism)
        except Exception:  # noqa: BLE001 - a connector may raise anything
            _LOG.warning("%s: the leftovers of earlier attempts could not be removed", node.name, exc_info=True)
