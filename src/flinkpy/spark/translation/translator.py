"""The translation of a region into DataFrames.

`translate` plans only: nothing runs until somebody asks a frame for rows or runs a sink.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.spark_region import SparkRegion
from flinkpy.spark.stream_frame import StreamFrame, TakeAccumulators

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class RegionJob:
    """What operators in Spark see of the job they belong to.

    `configuration`: the job's, by key. `cached_files`: paths on the executors by name. `attempt_number`: of the region.
    """

    job_id: str = "0" * 32
    job_name: str = ""
    configuration: Mapping[str, str] = field(default_factory=dict)
    cached_files: Mapping[str, str] = field(default_factory=dict)
    attempt_number: int = 0


class SinkJob(Protocol):
    """One or several sinks that are written in one Spark job. Blocks; runs once, on any one thread."""

    @property
    def name(self) -> str: ...

    def run(self, take_accumulators: TakeAccumulators) -> int:
        """Write, and commit what the successful attempts have written; returns the number of records written.

        Raises: CommitError; whatever Spark raises (see `spark.worker_errors.failure_in`).
        """
        ...


@dataclass(frozen=True, slots=True)
class Translated:
    """`outputs`: as the region's, to be read with `StreamFrame.decode`. `sinks`: to be run one after the other."""

    outputs: list[StreamFrame]
    sinks: list[SinkJob]


def translate(
    region: SparkRegion, session: SparkSession, inputs: list[StreamFrame], job: RegionJob | None = None
) -> Translated:
    """Raises: UnsupportedOperationError: an operator that Spark cannot run; names it."""
    raise UnsupportedOperationError("the Spark backend cannot translate operators yet")
