"""What a region writes: the Spark jobs of its sinks, and the commits of what they have written.

All sinks of a region are written before any is committed. So a region that fails while it writes has shown nothing.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from flinkpy.configuration import read_option
from flinkpy.configuration.sink_options import COMMITTER_RETRIES
from flinkpy.connector_api.serializer import read_versioned
from flinkpy.connector_api.sink import Committer, SinkBase
from flinkpy.records.batch import Batch
from flinkpy.spark.blocks import SinkReport, decode_block
from flinkpy.spark.stream_frame import BLOCK_COLUMN, TakeAccumulators
from flinkpy.spark.translation.deferred_sink import USUAL_ATTEMPTS, job_id_of_attempt, remove_leftovers
from flinkpy.spark.translation.program import JobFacts
from flinkpy.streaming.operators.committables import END_OF_INPUT_ID, Committables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flinkpy.common.configuration import Configuration
    from flinkpy.graph.spark_region import SparkNode


_LOG = logging.getLogger(__name__)


class SinkJob(Protocol):
    """One or several sinks that are written by one Spark job. Thread: one at a time. Each method is called once."""

    @property
    def name(self) -> str: ...

    def write(self, take_accumulators: TakeAccumulators) -> int:
        """Run the job; returns the number of records written.

        Raises: whatever Spark raises (see `spark.worker_errors.failure_in`).
        """
        ...

    def commit(self) -> None:
        """Make visible what the attempts have written that succeeded.

        Raises: CommitError.
        """
        ...


class PassSinkJob:
    """The sinks of one pass.

    Args:
        frame: rows of PASS_SCHEMA, all of `__out` SINKS; without sinks, accumulators only.
        may_speculate: whether Spark may run two attempts of a task at a time.
    """

    def __init__(
        self,
        name: str,
        frame: DataFrame,
        sinks: list[SparkNode],
        job: JobFacts,
        configuration: Configuration,
        may_speculate: bool,
    ) -> None:
        self.name = name
        self._frame = frame
        self._sinks = sinks
        self._job = job
        self._may_speculate = may_speculate
        self._retries = read_option(configuration, COMMITTER_RETRIES)
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

    def commit(self) -> None:
        for number, node in enumerate(self._sinks):
            sink: SinkBase = node.spec.sink  # type: ignore[attr-defined]
            committer = sink.create_committer()
            if committer is None:
                continue
            reports = [report for report in self._reports if report.sink == number]
            try:
                self._commit(node, committer, reports)
            finally:
                committer.close()
            self._remove_leftovers(node, reports)

    def _commit(self, node: SparkNode, committer: Committer, reports: list[SinkReport]) -> None:
        serializer = node.spec.sink.committable_serializer  # type: ignore[attr-defined]
        what = f"operator {node.name}, a committable"
        committables = Committables()
        committables.add(
            END_OF_INPUT_ID,
            [read_versioned(serializer, data, what) for report in reports for data in report.committables],
        )
        committables.commit_up_to(END_OF_INPUT_ID, committer, self._retries)

    def _remove_leftovers(self, node: SparkNode, reports: list[SinkReport]) -> None:
        """Of attempts of Spark's tasks that failed or were too slow, and of those of the region. What they have left
        is invisible: the job has succeeded whether it can be removed or not.
        """
        task_attempts = max((report.attempt_number for report in reports), default=0) + 1 + self._may_speculate
        region_attempts = self._job.attempt_number + 1
        if task_attempts == region_attempts == 1:
            return
        job_ids = [
            job_id_of_attempt(self._job.job_id, region_attempt, task_attempt)
            for region_attempt in range(region_attempts)
            for task_attempt in range(max(task_attempts, USUAL_ATTEMPTS if region_attempts > 1 else 1))
        ]
        sink: SinkBase = node.spec.sink  # type: ignore[attr-defined]
        subtasks = [report.subtask_index for report in reports]
        try:
            remove_leftovers(sink, node.inputs[0].type_info, job_ids, subtasks, node.parallelism)
        except Exception:  # noqa: BLE001 - whatever the connector raises
            _LOG.warning("%s: what earlier attempts have left could not be removed", node.name, exc_info=True)
