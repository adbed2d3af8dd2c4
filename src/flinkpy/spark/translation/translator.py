"""Translates a region to DataFrames.

Python workers run most operators, as passes (`mapInArrow`). `flinkpy.spark.columns` translates the operators that Spark
can run itself. Between passes records travel in blocks. The worker of the producer routes them with the partitioner of
the edge, and Spark moves each block to the partition of its subtask. A subtask reads its blocks in the order of (edge,
producer, number), so a repeated task reads the same records in the same order.

A frame that is read more than once is kept (`flinkpy.spark.frame_store`), so that a function that is not deterministic
gives all consumers the same records.

Partition i of a frame is subtask i. Spark 4.1 has `repartitionById` for that. Older releases can only partition by the
hash of a column. For them the number of the partition is replaced by an integer whose hash is that number. The hash,
Murmur3 with seed 42, cannot change, because all releases read tables that are bucketed by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from flinkpy.configuration import execution_options, read_option
from flinkpy.graph.operator_specs import SinkSpec, SourceSpec
from flinkpy.graph.partitioning import FORWARD, GLOBAL
from flinkpy.graph.spark_region import SparkEdge, SparkNode, SparkRegion
from flinkpy.network.partitioner import RebalancePartitioner
from flinkpy.spark import columns
from flinkpy.spark.frame_store import DriverStore, FrameStore
from flinkpy.spark.stream_frame import (
    BLOCK_COLUMN,
    Layout,
    PythonStep,
    StreamFrame,
    frame_schema,
    natural_layout,
    spark_schema,
)
from flinkpy.spark.translation import pass_programs
from flinkpy.spark.translation.parallelism import SparkCapacity, may_change, num_subtasks, with_num_subtasks
from flinkpy.spark.translation.parquet_sinks import ParquetSinkJob
from flinkpy.spark.translation.places import Obstacles, OperatorPlace, places_of, read_streams
from flinkpy.spark.translation.planner import ANYWHERE, PassUnit, Plan, StreamKey, plan
from flinkpy.spark.translation.program import (
    EDGE_COLUMN,
    MARKER_EDGE,
    OUTPUT_COLUMN,
    PASS_SCHEMA,
    PRODUCER_COLUMN,
    SEQUENCE_COLUMN,
    SINKS,
    SUBTASK_COLUMN,
    TARGET_COLUMN,
    JobFacts,
    PassInput,
    PassWriter,
)
from flinkpy.spark.translation.sinks import SPECULATION, PassSinkJob, SinkJob, check_concurrent_attempts
from flinkpy.spark.translation.worker import columns_function, pass_function

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Translated:
    """A translated region.

    Attributes:
        outputs: the frames of the region's outputs, read with `StreamFrame.decode`.
        places: where Spark runs each operator, and why.
        sinks: the jobs that write the sinks. All are written, one after the other, before any is committed.
    """

    outputs: list[StreamFrame]
    sinks: list[SinkJob]
    places: tuple[OperatorPlace, ...] = ()


def translate(
    region: SparkRegion,
    session: SparkSession,
    inputs: list[StreamFrame],
    job: JobFacts | None = None,
    store: FrameStore | None = None,
) -> Translated:
    """Returns the frames of a region's outputs, and its sinks. Runs Spark jobs only for frames that have to be kept.

    Args:
        store: keeps frames that are read more than once. Default: the store for a master on this host.

    Raises:
        ConfigurationError: Spark may run two attempts of a task at once, and a sink does not support that.
        UnsupportedOperationError: Spark cannot run an operator. Errors of a source's enumerator are raised too.
    """
    return _Translation(region, session, inputs, job or JobFacts(), store or DriverStore()).run()


class _Translation:
    def __init__(
        self,
        region: SparkRegion,
        session: SparkSession,
        inputs: list[StreamFrame],
        job: JobFacts,
        store: FrameStore,
    ) -> None:
        self._region = region
        self._session = session
        self._inputs = inputs
        self._job = pass_programs.job_of_region(region, job)
        self._may_speculate = (session.conf.get(SPECULATION, "false") or "").lower() == "true"
        if self._may_speculate:
            check_concurrent_attempts(region.nodes)
        self._store = store
        self._may_recompute = not isinstance(store, DriverStore)
        self._obstacles = Obstacles(region, session)
        self._plan: Plan = plan(region, self._runs_in_spark, separates_sinks=self._may_recompute)
        self._choose_parallelism()
        #: The streams for readers other than passes.
        self._streams: dict[StreamKey, StreamFrame] = {
            (-1 - number, None): stream for number, stream in enumerate(inputs)
        }
        #: The frames of the passes by the id of their head.
        self._frames: dict[int, DataFrame] = {}
        #: Nodes of Spark whose frames need Python workers to be computed again.
        self._is_made_in_python: set[int] = set()
        self._sinks: list[SinkJob] = []

    def run(self) -> Translated:
        for unit in self._plan.units:
            if isinstance(unit, PassUnit):
                self._add_pass(unit)
            else:
                self._add_spark_node(unit.node)
        outputs = [self._streams[output.node, output.tag] for output in self._region.outputs]
        return Translated(outputs, self._sinks, tuple(places_of(self._region, self._plan, self._obstacles)))

    def _choose_parallelism(self) -> None:
        """Gives the passes as many subtasks as Spark's cores and the data need."""
        if not read_option(self._job.configuration, execution_options.AUTO_PARALLELISM_ENABLED):
            return
        in_passes = list(self._plan.pass_of)
        capacity = capacity_of(self._session)
        if capacity is None or not may_change(self._region, in_passes):
            return
        sources = [node.spec.source for node in self._region.nodes if isinstance(node.spec, SourceSpec)]
        input_bytes = sum(source.estimated_size_bytes() or 0 for source in sources)
        self._region = with_num_subtasks(self._region, in_passes, num_subtasks(capacity, input_bytes))
        self._plan = plan(self._region, lambda node: node.id not in in_passes, separates_sinks=self._may_recompute)

    # -- what Spark does itself ----------------------------------------------------------------------------------

    def _runs_in_spark(self, node: SparkNode) -> bool:
        return self._obstacles.of(node) is None

    def _add_spark_node(self, node: SparkNode) -> None:
        if isinstance(node.spec, SinkSpec):
            edge = node.inputs[0]
            records = self._in_columns(edge)
            placed = _placed_by_spark(edge, node.parallelism, records.frame, wants_exact_parallelism=False)
            assert placed is not None, f"{node.name}: {edge.partitioning_kind}"
            records = StreamFrame(placed, records.type_info, records.layout)
            self._sinks.append(ParquetSinkJob(node, records, self._job))
            return
        stream = columns.translate(
            node, [self._in_columns(edge) for edge in node.inputs], self._session, self._job.files
        )
        assert stream is not None, f"{node.name}: is_expressible and translate differ"
        if any(edge.source in self._plan.pass_of or edge.source in self._is_made_in_python for edge in node.inputs):
            self._is_made_in_python.add(node.id)
            if read_streams(self._region).count((node.id, None)) > 1:
                stream = StreamFrame(self._store.keep(stream.frame, node.name), stream.type_info, stream.layout)
        self._streams[node.id, None] = stream

    def _in_columns(self, edge: SparkEdge) -> StreamFrame:
        stream = self._streams[edge.source, edge.tag]
        if stream.is_columnar:
            return stream
        schema = spark_schema(frame_schema(edge.type_info, Layout.COLUMNS))
        frame = stream.frame.mapInArrow(columns_function(edge.type_info), schema)
        return StreamFrame(frame, edge.type_info, Layout.COLUMNS)

    # -- passes --------------------------------------------------------------------------------------------------

    def _add_pass(self, unit: PassUnit) -> None:
        head = unit.head
        if unit.is_source:
            subtasks = self._session.range(0, head.parallelism, 1, head.parallelism)
            frame, shape = subtasks.select(F.col("id").cast("int").alias(SUBTASK_COLUMN)), PassInput(None)
        else:
            frame, shape = self._input_of(unit)
        readers, readers_of_reports = self._readers_of(unit)
        program = pass_programs.program_of(
            unit,
            shape,
            self._job,
            has_columns=self._has_columns(unit, readers_of_reports),
            report_output=pass_programs.report_output_of(unit, readers_of_reports),
            may_speculate=self._may_speculate,
        )
        function = pass_function(program)
        made = frame.mapInArrow(function, spark_schema(pass_programs.schema_of(program)))
        reports_apart = program.report_output == SINKS and pass_programs.may_have_accumulators(unit)
        has_sink_job = bool(unit.sinks) or reports_apart
        is_read_once = len(readers) + has_sink_job <= 1
        if not is_read_once:
            made = self._store.keep(made, unit.name)
        self._frames[head.id] = made
        for number, output in enumerate(unit.outputs):
            if output.edge is None and program.has_columns:
                step = PythonStep(frame, function) if is_read_once else None
                self._streams[output.stream] = StreamFrame(made, output.type_info, Layout.COLUMNS, step)
            elif output.edge is None:
                mine = (
                    made if len(unit.outputs) == 1 and not has_sink_job else made.where(F.col(OUTPUT_COLUMN) == number)
                )
                step = PythonStep(frame, function, (BLOCK_COLUMN,)) if is_read_once and mine is made else None
                self._streams[output.stream] = StreamFrame(
                    mine.select(BLOCK_COLUMN), output.type_info, Layout.BLOCKS, step
                )
        if has_sink_job:
            rows = made.where(F.col(OUTPUT_COLUMN) == SINKS) if readers else made
            name = ", ".join(sink.name for sink in unit.sinks) or unit.name
            self._sinks.append(PassSinkJob(name, rows, unit.sinks, self._job, self._may_speculate))

    def _readers_of(self, unit: PassUnit) -> tuple[set[tuple[str, int]], set[StreamKey]]:
        """Returns the readers of the frame of a pass, and the streams whose readers pass on accumulators."""
        inside = {node.id for node in unit.nodes}
        readers = {("node", output.consumer.id) for output in unit.outputs if output.consumer is not None}
        takers: set[StreamKey] = set()
        for other in self._plan.units:
            if isinstance(other, PassUnit):
                continue
            for edge in other.node.inputs:
                if edge.source in inside:
                    readers.add(("node", other.node.id))
        for number, output in enumerate(self._region.outputs):
            if output.node in inside:
                readers.add(("output", number))
                takers.add((output.node, output.tag))
        return readers, takers

    def _has_columns(self, unit: PassUnit, takers: set[StreamKey]) -> bool:
        """Returns True if the pass emits columns, because it has no other output."""
        if len(unit.outputs) != 1 or unit.sinks or takers or pass_programs.may_have_accumulators(unit):
            return False
        output = unit.outputs[0]
        return output.edge is None and natural_layout(output.type_info) is Layout.COLUMNS

    # -- what a pass reads ---------------------------------------------------------------------------------------

    def _input_of(self, unit: PassUnit) -> tuple[DataFrame, PassInput]:
        """Returns the partitioned input. Partition i is for subtask i."""
        head = unit.head
        if len(head.inputs) == 1 and head.inputs[0].source not in self._plan.pass_of:
            edge = head.inputs[0]
            stream = self._streams[edge.source, edge.tag]
            direct = _placed_by_spark(edge, head.parallelism, stream.frame, unit.wants_exact_parallelism)
            if direct is not None:
                return direct, PassInput(None, edge.type_info, stream.layout)
        # Broadcast inputs are read first, because operators wait for them.
        edges = sorted(head.inputs, key=lambda edge: (not edge.partitioner.is_broadcast, edge.input_index))
        parts = [part for number, edge in enumerate(edges) if (part := self._part(unit, number, edges)) is not None]
        frame = self._markers(head.parallelism)
        for part in parts:
            frame = frame.union(part)
        placed = place(frame, TARGET_COLUMN, head.parallelism)
        ordered = placed.sortWithinPartitions(EDGE_COLUMN, PRODUCER_COLUMN, SEQUENCE_COLUMN)
        return ordered.select(EDGE_COLUMN, BLOCK_COLUMN, TARGET_COLUMN), PassInput(
            tuple(edge.input_index for edge in edges)
        )

    def _markers(self, parallelism: int) -> DataFrame:
        """Returns a first row for each subtask, which contains its number."""
        nothing = F.lit(None)
        return self._session.range(0, parallelism, 1, 1).select(
            F.lit(MARKER_EDGE).alias(EDGE_COLUMN),
            F.col("id").cast("int").alias(TARGET_COLUMN),
            nothing.cast("int").alias(PRODUCER_COLUMN),
            nothing.cast("bigint").alias(SEQUENCE_COLUMN),
            nothing.cast("binary").alias(BLOCK_COLUMN),
        )

    def _part(self, unit: PassUnit, number: int, edges: list[SparkEdge]) -> DataFrame | None:
        """Returns the blocks of all edges from the pass of edge `number`; None if an earlier part has them."""
        edge = edges[number]
        producer = self._plan.pass_of.get(edge.source)
        if producer is None:
            return self._routed(unit, number, edge)
        numbers = {id(one): position for position, one in enumerate(edges)}
        of_output = {
            position: numbers[id(output.edge)]
            for position, output in enumerate(producer.outputs)
            if output.consumer is unit.head
        }
        if number != min(of_output.values()):
            return None
        frame = self._frames[producer.head.id]
        if len(of_output) < len(producer.outputs) or producer.sinks:
            frame = frame.where(F.col(OUTPUT_COLUMN).isin(list(of_output)))
        return _block_rows(frame, _edge_of_output(of_output))

    def _routed(self, unit: PassUnit, number: int, edge: SparkEdge) -> DataFrame:
        """Returns the blocks of a stream that no pass has routed for this edge."""
        stream = self._streams[edge.source, edge.tag]
        # A pointwise partitioner cannot be used, because the producer's subtask of a record is not known.
        partitioner = RebalancePartitioner() if edge.partitioner.is_pointwise else edge.partitioner
        writer = PassWriter(0, edge.type_info, partitioner, unit.head.parallelism, unit.head.max_parallelism)
        return _block_rows(self._route(stream, writer, unit.name), F.lit(number))

    def _route(self, stream: StreamFrame, writer: PassWriter, name: str) -> DataFrame:
        shape = PassInput(None, stream.type_info, stream.layout)
        program = pass_programs.router_program(name, writer, shape, self._job)
        return stream.frame.mapInArrow(pass_function(program), spark_schema(PASS_SCHEMA))


def capacity_of(session: SparkSession) -> SparkCapacity | None:
    """Returns the capacity of Spark; None with Spark Connect, which does not tell its cores."""
    if getattr(session, "_jsparkSession", None) is None:
        return None
    partitions = session.conf.get("spark.sql.shuffle.partitions")
    assert partitions is not None
    return SparkCapacity(session.sparkContext.defaultParallelism, int(partitions))


def _placed_by_spark(
    edge: SparkEdge, parallelism: int, frame: DataFrame, wants_exact_parallelism: bool
) -> DataFrame | None:
    """Returns the frame partitioned by Spark; None if a key or a function decides where a record goes."""
    kind = edge.partitioning_kind
    if kind == GLOBAL or (parallelism == 1 and kind in ANYWHERE):
        return frame.coalesce(1)
    if kind == FORWARD and not wants_exact_parallelism:
        return frame
    return frame.repartition(parallelism) if kind in ANYWHERE else None


def _block_rows(frame: DataFrame, edge: Column) -> DataFrame:
    return frame.select(
        edge.cast("int").alias(EDGE_COLUMN),
        F.col(TARGET_COLUMN),
        F.col(PRODUCER_COLUMN),
        F.col(SEQUENCE_COLUMN),
        F.col(BLOCK_COLUMN),
    )


def _edge_of_output(edges: dict[int, int]) -> Column:
    """Returns the number of the edge of each `__out` as a column."""
    pairs = list(edges.items())
    column = F.lit(pairs[0][1])
    for output, edge in pairs[1:]:
        column = F.when(F.col(OUTPUT_COLUMN) == output, F.lit(edge)).otherwise(column)
    return column


_MASK = 0xFFFFFFFF
_SEED = 42
_PLACE_COLUMN = "__place"


def place(frame: DataFrame, column: str, num_partitions: int) -> DataFrame:
    """Moves each row to its partition.

    Args:
        column: the name of the int column with the number of the partition.
    """
    if num_partitions == 1:
        return frame.repartition(1)
    if has_repartition_by_id(frame.sparkSession.version):
        return frame.repartitionById(num_partitions, F.col(column))
    places = F.array(*[F.lit(value) for value in values_of_partitions(num_partitions)])
    placed = frame.withColumn(_PLACE_COLUMN, places[F.col(column)])
    return placed.repartition(num_partitions, F.col(_PLACE_COLUMN)).drop(_PLACE_COLUMN)


def has_repartition_by_id(version: str) -> bool:
    """Returns True if this version of Spark has `repartitionById`."""
    major, minor, *_ = version.split(".")
    return (int(major), int(minor)) >= (4, 1)


@cache
def values_of_partitions(num_partitions: int) -> tuple[int, ...]:
    """Returns an int for each partition that Spark's hash partitioning puts there."""
    found: dict[int, int] = {}
    value = 0
    while len(found) < num_partitions:
        found.setdefault(_murmur3_of_int(value) % num_partitions, value)
        value += 1
    return tuple(found[partition] for partition in range(num_partitions))


def _murmur3_of_int(value: int) -> int:
    """Returns `hash(value)` of Spark SQL for an int, as a signed number."""
    word = _rotated(value * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    state = (_rotated(_SEED ^ word, 13) * 5 + 0xE6546B64) & _MASK
    state ^= 4  # bytes
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _MASK
