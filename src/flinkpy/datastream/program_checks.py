"""Checks of a program while it is built and before it is submitted: refuses what flinkpy could not honour."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flinkpy.common.errors import JobSubmissionError, UnsupportedOperationError
from flinkpy.common.ids import JobID
from flinkpy.graph.operator_specs import SourceSpec, TimestampsAndWatermarksSpec
from flinkpy.graph.partitioning import CUSTOM
from flinkpy.graph.transformation import OperatorTransformation, Transformation

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration
    from flinkpy.common.execution_config import ExecutionConfig
    from flinkpy.common.typeinfo import TypeInformation
    from flinkpy.common.watermark_strategy import WatermarkStrategy
    from flinkpy.datastream.checkpoint_config import CheckpointConfig
    from flinkpy.graph.stream_graph import StreamGraph, StreamNode


def check_types_are_declared(graph: StreamGraph, config: ExecutionConfig) -> None:
    """Checks that all types are declared if `pipeline.generic-types` is false.

    Raises: JobSubmissionError, which names the operator.
    """
    if not config.has_generic_types_disabled():
        return
    for node in graph.nodes:
        if node.spec.output_type is None and not node.transformation.is_sink:
            raise JobSubmissionError(
                f"operator '{node.name}' has no declared output type, and pipeline.generic-types is false"
            )


def check_state_backend(configuration: Configuration) -> None:
    """Raises: UnsupportedOperationError if the program asks for the changelog state backend."""
    from flinkpy.configuration.options import read_option
    from flinkpy.configuration.state_backend_options import CHANGELOG_ENABLED

    if read_option(configuration, CHANGELOG_ENABLED):
        raise UnsupportedOperationError(
            "state.changelog.enabled (enable_changelog_state_backend): there is no changelog state backend. For short "
            "checkpoints of large state, use state.backend.type: rocksdb with execution.checkpointing.incremental"
        )


def check_unaligned_checkpoints(graph: StreamGraph, config: CheckpointConfig) -> None:
    """Refuses unaligned checkpoints with custom partitioners, unless they are forced.

    In-flight records behind a custom partitioner cannot be redistributed when the job is rescaled.

    Raises: UnsupportedOperationError, which names the operator.
    """
    if not config.is_unaligned_checkpoints_enabled() or config.is_force_unaligned_checkpoints():
        return
    for node in graph.nodes:
        for edge in node.in_edges:
            if edge.partitioning.kind == CUSTOM:
                raise UnsupportedOperationError(
                    f"operator '{node.name}' reads a stream with a custom partitioner: its unaligned checkpoints "
                    "could not be rescaled. Use aligned checkpoints, or set "
                    "execution.checkpointing.unaligned.forced to true"
                )


def check_sinks_of_streaming_mode(graph: StreamGraph) -> None:
    """Checks that no sink needs batch mode. Raises: UnsupportedOperationError, which names the sink."""
    from flinkpy.graph.operator_specs import SinkSpec, SinkWriterSpec

    for node in graph.nodes:
        if isinstance(node.spec, SinkSpec | SinkWriterSpec) and node.spec.sink.needs_batch_mode:
            raise UnsupportedOperationError(
                f"sink '{node.name}' ({node.spec.sink!r}) replaces records or writes a success file, which needs one "
                "commit for the whole job: set execution.runtime-mode: BATCH"
            )


def check_replaced_inputs(graph: StreamGraph) -> None:
    """Checks that no file sink deletes files that another sink of the job may still need.

    Each sink commits when its own writers have ended. Another one may have to read the input after that, or read it
    again after a failure. Nothing reads the input of a single sink after its commit.

    Raises: UnsupportedOperationError, which names the sink.
    """
    from flinkpy.connectors.file_sink import FileSink
    from flinkpy.connectors.file_source import FileSource
    from flinkpy.connectors.write_mode import WriteMode
    from flinkpy.graph.operator_specs import SinkSpec

    sinks = [node for node in graph.nodes if isinstance(node.spec, SinkSpec)]
    if len(sinks) < 2:
        return
    sources = [node.spec.source for node in graph.nodes if isinstance(node.spec, SourceSpec)]
    paths = [path.rstrip("/") for source in sources if isinstance(source, FileSource) for path in source.paths]
    for node in sinks:
        sink = node.spec.sink  # type: ignore[attr-defined]
        if not isinstance(sink, FileSink) or sink.publication.mode is WriteMode.APPEND:
            continue
        base = f"{sink.base_path.rstrip('/')}/"
        for path in paths:
            if f"{path}/".startswith(base) or base.startswith(f"{path}/"):
                raise UnsupportedOperationError(
                    f"sink '{node.name}' replaces files of {path}, which this job reads, and another sink may need "
                    "them after its commit: write to another directory, or give the other sinks a job of their own",
                    details={"path": path},
                )


def warn_of_sinks_that_never_commit(graph: StreamGraph, configuration: Configuration) -> None:
    """Warns of sinks that commit at checkpoints if their input is unbounded and there are no periodic checkpoints.

    This is not an error: the configuration of the cluster may set the interval, or checkpoints may be triggered by
    hand.
    """
    from flinkpy.configuration import read_option
    from flinkpy.configuration.checkpointing_options import INTERVAL
    from flinkpy.graph.operator_specs import SinkSpec, SinkWriterSpec

    if read_option(configuration, INTERVAL):
        return
    for node in graph.nodes:
        if (
            isinstance(node.spec, SinkSpec | SinkWriterSpec)
            and node.spec.sink.commits_at_checkpoints
            and not _ends(node)
        ):
            warnings.warn(
                f"no reader will see what sink '{node.name}' writes: the sink commits when a checkpoint is complete, "
                "and this program takes no checkpoints. Call env.enable_checkpointing(interval_ms), or set "
                f"`{INTERVAL.key}`. Ignore this if the cluster's configuration sets it, or if you take checkpoints "
                "yourself",
                UserWarning,
                stacklevel=4,
            )


def _ends(node: StreamNode) -> bool:
    """Returns True if all sources that the operator reads are bounded."""
    pending, seen = [node], {node.id}
    while pending:
        one = pending.pop()
        if not one.in_edges and not one.transformation.is_bounded:
            return False
        for edge in one.in_edges:
            if edge.source.id not in seen:
                seen.add(edge.source.id)
                pending.append(edge.source)
    return True


def configured_job_id(configuration: Configuration) -> JobID | None:
    """Returns the configured JobID; None if the job gets a new one. Raises: JobSubmissionError if it is malformed."""
    from flinkpy.configuration import pipeline_options
    from flinkpy.configuration.options import read_option

    text = read_option(configuration, pipeline_options.JOB_ID)
    if text is None:
        return None
    if len(text) != 32 or set(text.lower()) - set("0123456789abcdef"):
        raise JobSubmissionError(f"{pipeline_options.JOB_ID.key}: {text!r} is not 32 hex digits")
    return JobID(text.lower())


def check_timestamp_column(strategy: WatermarkStrategy, type_info: TypeInformation | None) -> None:
    """Checks that the records have the timestamp column of the strategy, and that it is a time.

    Raises:
        ValueError: the type has no such field.
        TypeError: the field is neither an integer nor a timestamp.
    """
    from flinkpy.records.lanes import arrow_schema

    column = strategy.timestamp_column
    schema = None if column is None else arrow_schema(type_info)
    if column is None or schema is None:
        return
    names = schema.names
    position = names.index(column) if column in names else column
    if not isinstance(position, int) or position >= len(names):
        raise ValueError(f"with_timestamp_column({column!r}): the records have only the fields {names}")
    import pyarrow as pa

    kind = schema.types[position]
    if not pa.types.is_integer(kind) and not pa.types.is_timestamp(kind):
        raise TypeError(
            f"with_timestamp_column({column!r}): the field is {kind}, but event time must be an integer (milliseconds) "
            "or a timestamp"
        )


def sources_without_watermarks(stream: Transformation) -> Iterator[OperatorTransformation]:
    """Yields the unbounded sources whose records reach `stream` without passing a generator of watermarks.

    Bounded sources are left out: their end is a watermark too.
    """
    seen: set[int] = set()
    waiting = [stream]
    while waiting:
        transformation = waiting.pop()
        if transformation.id in seen:
            continue
        seen.add(transformation.id)
        spec = transformation.spec if isinstance(transformation, OperatorTransformation) else None
        if isinstance(spec, SourceSpec | TimestampsAndWatermarksSpec):
            strategy = spec.watermark_strategy
            if strategy is not None and strategy.makes_watermarks:
                continue
            if isinstance(spec, SourceSpec):
                assert isinstance(transformation, OperatorTransformation)
                # A SourceFunction may emit watermarks itself.
                if not transformation.is_bounded and spec.source.source_function is None:
                    yield transformation
                continue
        waiting.extend(transformation.inputs)
