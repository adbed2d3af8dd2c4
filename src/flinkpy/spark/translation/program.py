"""PassProgram: describes a pass over a DataFrame as plain data, which is pickled and run by Spark's Python workers.

A pass is a chain of operators, like the chain of a native task. Its rows have the schema PASS_SCHEMA. If its only
output is read by Spark's own operators, they have the columns of this output instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from flinkpy.spark.stream_frame import BLOCK_COLUMN, Layout
from flinkpy.spark.translation.split_assignment import ReaderEvents
from flinkpy.spark.worker_files import WorkerFiles

#: The number of an output of the pass, or SINKS.
OUTPUT_COLUMN = "__out"
#: The subtask of the consumer.
TARGET_COLUMN = "__target"
#: The subtask that made a block, and the number of the block in this subtask. Both together order the blocks.
PRODUCER_COLUMN = "__producer"
SEQUENCE_COLUMN = "__seq"
#: At a consumer, the position of the edge in its inputs. The first row of a subtask has MARKER_EDGE and contains only
#: the number of the subtask.
EDGE_COLUMN = "__edge"
MARKER_EDGE = -1
#: The subtask that reads a row.
SUBTASK_COLUMN = TARGET_COLUMN

PASS_SCHEMA = pa.schema(
    [
        pa.field(OUTPUT_COLUMN, pa.int32()),
        pa.field(TARGET_COLUMN, pa.int32()),
        pa.field(PRODUCER_COLUMN, pa.int32()),
        pa.field(SEQUENCE_COLUMN, pa.int64()),
        pa.field(BLOCK_COLUMN, pa.binary()),
    ]
)
#: The `__out` of SinkReports.
SINKS = -1


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The properties of a job that its operators see.

    Attributes:
        configuration: the options of the job by key.
        cached_files: the paths on the executors by name.
        attempt_number: the attempt of the region.
        files: the directories that modules are imported from.
    """

    job_id: str = "0" * 32
    job_name: str = ""
    configuration: Mapping[str, str] = field(default_factory=dict)
    cached_files: Mapping[str, str] = field(default_factory=dict)
    attempt_number: int = 0
    files: WorkerFiles = field(default_factory=WorkerFiles)


@dataclass(frozen=True, slots=True)
class Link:
    """The target of an operator's output: the operator at a position of the chain, or a writer."""

    tag: str | None
    chained: int | None = None
    writer: int | None = None


@dataclass(frozen=True, slots=True)
class PassOperator:
    """An operator of a pass.

    Attributes:
        spec_pickle: its OperatorSpec, pickled by cloudpickle.
    """

    operator_id: str
    name: str
    spec_pickle: bytes
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class PassWriter:
    """An output of a pass: an exchange with the `num_channels` subtasks of a consumer.

    Attributes:
        type_info: the type of the records.
        partitioner: from `network.partitioner`; None if records may go to any subtask.
    """

    output: int
    type_info: Any
    partitioner: Any = None
    num_channels: int = 1
    max_parallelism: int = 128


@dataclass(frozen=True, slots=True)
class PassInput:
    """Describes the rows that a pass reads.

    Attributes:
        edges: the input of the head operator for each edge. None if the rows are those of a StreamFrame for input 0, or
            if the head is a source.
        type_info, layout: those of the StreamFrame.
    """

    edges: tuple[int, ...] | None
    type_info: Any = None
    layout: Layout = Layout.BLOCKS


@dataclass(frozen=True, slots=True)
class PassProgram:
    """The program of a pass.

    Attributes:
        operators: the chain, the head first. Without operators, records are only routed.
        num_inputs: the number of inputs of the head.
        has_columns: True if the only output is in columns.
        report_output: the output that accumulators travel with.
        source_events: the events for the head's reader by subtask; None if the head is not a source.
        may_speculate: True if two attempts of a subtask may run at the same time.
    """

    name: str
    job: JobFacts
    parallelism: int
    max_parallelism: int
    operators: tuple[PassOperator, ...]
    writers: tuple[PassWriter, ...]
    input: PassInput
    num_inputs: int = 1
    has_columns: bool = False
    report_output: int = SINKS
    source_events: tuple[ReaderEvents, ...] | None = None
    may_speculate: bool = False
