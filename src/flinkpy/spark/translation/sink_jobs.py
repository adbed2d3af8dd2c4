"""What a region writes: the Spark jobs of its sinks, and the commits of what they have written.

All sinks of a region are written before any is committed. So a region that fails while it writes has shown nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from flinkpy.configuration import read_option
from flinkpy.configuration.sink_options import COMMITTER_RETRIES
from flinkpy.connector_api.serializer import read_versioned
from flinkpy.connector_api.sink import SinkBase
from flinkpy.records.batch import Batch
from flinkpy.spark.blocks import SinkReport, decode_block
from flinkpy.spark.stream_frame import BLOCK_COLUMN, TakeAccumulators
from flinkpy.streaming.operators.committables import END_OF_INPUT_ID, Committables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flinkpy.common.configuration import Configuration
    from flinkpy.graph.spark_region import SparkNode


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
    """The sinks of one pass. `frame`: rows of PASS_SCHEMA, all of `__out` SINKS; without sinks, accumulators only."""

    def __init__(self, name: str, frame: DataFrame, sinks: list[SparkNode], configuration: Configuration) -> None:
        self.name = name
        self._frame = frame
        self._sinks = sinks
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
            what = f"operator {node.name}, a committable"
            handed_over = [data for report in self._reports if report.sink == number for data in report.committables]
            committables = Committables()
            committables.add(
                END_OF_INPUT_ID, [read_versioned(sink.committable_serializer, data, what) for data in handed_over]
            )
            try:
                committables.commit_up_to(END_OF_INPUT_ID, committer, self._retries)
            finally:
                committer.close()
