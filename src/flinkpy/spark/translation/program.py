"""What a pass over a DataFrame does, as plain data: it is pickled, and a Python worker of Spark runs it.

A pass is a chain of operators, as a task of the native runtime has one. Its rows are of the schema PASS_SCHEMA, or,
where it has one output that Spark's own operators read, the columns of that output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from flinkpy.spark.stream_frame import BLOCK_COLUMN, Layout
from flinkpy.spark.translation.split_assignment import ReaderEvents
from flinkpy.spark.worker_files import WorkerFiles

#: Which output of the pass, or SINKS.
OUTPUT_COLUMN = "__out"
#: The subtask of the consumer that the block is for.
TARGET_COLUMN = "__target"
#: Subtask that made the block, and its number among those that it made: together the order of the blocks.
PRODUCER_COLUMN = "__producer"
SEQUENCE_COLUMN = "__seq"
#: At a consumer: position of the edge among its inputs. The first row of a subtask is of no edge: it tells the subtask.
EDGE_COLUMN = "__edge"
MARKER_EDGE = -1
#: In rows that say which subtask reads them.
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
#: `__out` of what sinks have written: a block of it is a SinkReport.
SINKS = -1


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What operators see of their job.

    `configuration`: the job's, by key. `cached_files`: paths on the executors by name. `attempt_number`: of the region.
    `files`: where modules of the job are imported from.
    """

    job_id: str = "0" * 32
    job_name: str = ""
    configuration: Mapping[str, str] = field(default_factory=dict)
    cached_files: Mapping[str, str] = field(default_factory=dict)
    attempt_number: int = 0
    files: WorkerFiles = field(default_factory=WorkerFiles)


@dataclass(frozen=True, slots=True)
class Link:
    """Where an output of an operator leads: to the operator at that position of the chain, or to a writer."""

    tag: str | None
    chained: int | None = None
    writer: int | None = None


@dataclass(frozen=True, slots=True)
class PassOperator:
    """`spec_pickle`: its OperatorSpec, by cloudpickle."""

    operator_id: str
    name: str
    spec_pickle: bytes
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class PassWriter:
    """One output of the pass: an exchange with the `num_channels` subtasks of a consumer.

    `partitioner`: object of `network.partitioner`; None: nobody cares where records go. `type_info`: of the records.
    """

    output: int
    type_info: Any
    partitioner: Any = None
    num_channels: int = 1
    max_parallelism: int = 128


@dataclass(frozen=True, slots=True)
class PassInput:
    """How the rows of the pass's DataFrame are read.

    `edges`: of each edge the input of the head operator. None: the rows are those of a StreamFrame, all for input 0,
    with this `type_info` and `layout`; or of no meaning at all, for a source.
    """

    edges: tuple[int, ...] | None
    type_info: Any = None
    layout: Layout = Layout.BLOCKS


@dataclass(frozen=True, slots=True)
class PassProgram:
    """`operators`: the head first; none: records only change their place. `num_inputs`: of the head. `has_columns`: the
    only output is in columns. `report_output`: output that accumulators travel with. `source_events`: by subtask, what
    the head's reader is sent; None: the head is no source. `may_speculate`: whether two attempts of a subtask may run
    at a time.
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
