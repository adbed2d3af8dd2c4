"""Decides which operators of a batch job run in Spark, with the reason."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass, replace

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import FlinkError, UnsupportedOperationError
from flinkpy.common.java_runtime import java_obstacle
from flinkpy.configuration import read_option, spark_options, values
from flinkpy.configuration.core_options import EXECUTION_TARGET
from flinkpy.configuration.execution_options import BATCH_SHUFFLE_MODE
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.stream_graph import BackendChoice, StreamGraph, StreamNode

NATIVE = "native"
SPARK = "spark"
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class _Obstacle:
    """A reason why an operator cannot run in Spark.

    `is_of_place` is True if the operator is tied to a process of the cluster. Then it runs natively even if the whole
    job is configured to run in Spark.
    """

    reason: str
    is_of_place: bool = False


def first_choices(graph: StreamGraph, configuration: Configuration) -> dict[int, BackendChoice]:
    """Returns the choice for every node, by id, based on the node alone.

    Raises:
        UnsupportedOperationError: if Spark was requested for an operator that it cannot run. Names the operator and the
            reason.
    """
    of_job = read_option(configuration, spark_options.BACKEND)
    choose = _only_choice if has_no_cluster(configuration) else _first_choice
    return {node.id: choose(node, of_job) for node in graph.nodes}


def has_no_cluster(configuration: Configuration) -> bool:
    """True if the job runs in the Spark session of its program, so there are no native tasks."""
    return read_option(configuration, EXECUTION_TARGET) == SPARK


def _only_choice(node: StreamNode, of_job: str) -> BackendChoice:
    """Returns the choice for a job without a cluster. Its driver runs the sinks that belong to the program.

    Raises:
        UnsupportedOperationError: the operator needs a native task. Names it and the reason.
    """
    spec = node.transformation.spec
    obstacle = _obstacle(node)
    wanted = node.transformation.batch_backend or of_job
    if isinstance(spec, specs.SinkSpec) and obstacle is not None and _runs_in_driver(spec):
        return BackendChoice(NATIVE, "it belongs to the program, so Spark's driver runs it")
    if wanted == NATIVE:
        chosen = node.transformation.batch_backend
        asked = "set_batch_backend('native')" if chosen else f"{spark_options.BACKEND.key} is native"
        obstacle = _Obstacle(f"its backend is native ({asked})")
    if obstacle is None:
        return BackendChoice(SPARK, f"{EXECUTION_TARGET.key} is spark")
    raise UnsupportedOperationError(
        f"operator '{node.name}' needs a flinkpy cluster, but {EXECUTION_TARGET.key} is spark: {obstacle.reason}",
        details={"operator": node.name},
    )


def _runs_in_driver(spec: specs.SinkSpec) -> bool:
    """True for `print` and `execute_and_collect`. The result of `cache` would end with the driver."""
    from flinkpy.connectors.collect_sink import CollectSink
    from flinkpy.connectors.print_sink import PrintSink

    return isinstance(spec.sink, CollectSink | PrintSink)


def _first_choice(node: StreamNode, of_job: str) -> BackendChoice:
    own = node.transformation.batch_backend
    wanted = own or of_job
    asked = f"set_batch_backend('{wanted}')" if own else f"{spark_options.BACKEND.key} is {wanted}"
    if wanted == NATIVE:
        return BackendChoice(NATIVE, asked)
    obstacle = _obstacle(node)
    if obstacle is None:
        return BackendChoice(wanted, asked)
    if wanted == SPARK and (own or not obstacle.is_of_place):
        raise UnsupportedOperationError(
            f"operator '{node.name}' cannot run in Spark ({asked}): {obstacle.reason}. Call "
            "set_batch_backend('native') on it, or leave the choice to 'auto'",
            details={"operator": node.name},
        )
    return BackendChoice(NATIVE, obstacle.reason)


def _obstacle(node: StreamNode) -> _Obstacle | None:
    spec = node.transformation.spec
    if isinstance(spec, specs.SinkSpec):
        return _obstacle_of_sink(spec)
    if isinstance(spec, specs.SourceSpec):
        return _obstacle_of_source(node, spec)
    if isinstance(spec, specs.AsyncWaitSpec):
        return _Obstacle("asynchronous calls need a native task, which has an event loop")
    return None


def _obstacle_of_sink(spec: specs.SinkSpec) -> _Obstacle | None:
    sink = spec.sink
    if sink.coordinator_provider is not None:
        return _Obstacle("it sends its records to the program through the JobMaster", is_of_place=True)
    if getattr(sink, "is_local_to_task", False):
        return _Obstacle("it writes to the process of the task", is_of_place=True)
    if sink.sink_function is not None:
        return _Obstacle(
            "a SinkFunction writes at once and has nothing to commit: a task that Spark repeats would write twice"
        )
    return None


def _obstacle_of_source(node: StreamNode, spec: specs.SourceSpec) -> _Obstacle | None:
    if not node.transformation.is_bounded:
        return _Obstacle("it is an unbounded source")
    if spec.source.source_function is not None:
        return _Obstacle("a SourceFunction has no splits that Spark could give to its tasks")
    if getattr(spec.source, "is_local_to_task", False):
        return _Obstacle("it reads data on the hosts of native tasks", is_of_place=True)
    return None


def decide(region: Iterable[StreamNode], configuration: Configuration) -> BackendChoice:
    """Returns the backend for the operators of a region whose choice is `auto`."""
    return decide_by_size(sum(_size_of(source) for source in _sources_above(region)), configuration)


def decide_by_size(size: int, configuration: Configuration) -> BackendChoice:
    """Returns the backend for operators whose choice is `auto`, and whose sources have this size in bytes."""
    mode = read_option(configuration, BATCH_SHUFFLE_MODE)
    if mode != "ALL_EXCHANGES_BLOCKING":
        return BackendChoice(NATIVE, f"auto: its exchanges are not blocking ({BATCH_SHUFFLE_MODE.key} is {mode})")
    minimum = read_option(configuration, spark_options.MIN_INPUT_SIZE)
    sizes = f"its sources have {values.format_memory(size)}, {spark_options.MIN_INPUT_SIZE.key} is "
    sizes += values.format_memory(minimum)
    if size < minimum:
        return BackendChoice(NATIVE, f"auto: {sizes}")
    obstacle = spark_obstacle(configuration)
    if obstacle is not None:
        return BackendChoice(NATIVE, f"auto: {sizes}, but {obstacle}")
    return BackendChoice(SPARK, f"auto: {sizes}")


def spark_obstacle(configuration: Configuration) -> str | None:
    """Returns why Spark is not available here; None if it is."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed: pip install 'flinkpy[spark]'"
    master = read_option(configuration, spark_options.MASTER)
    if master is not None and master.startswith("sc://"):
        return None
    return java_obstacle()


def final_choices(
    choices: dict[int, BackendChoice], region: Iterable[StreamNode], decided: BackendChoice
) -> dict[int, BackendChoice]:
    """Returns the choices, with `auto` replaced by `decided` for the nodes of the region."""
    changed = dict(choices)
    for node in region:
        if changed[node.id].backend == AUTO:
            changed[node.id] = replace(decided)
    return changed


def _sources_above(region: Iterable[StreamNode]) -> list[StreamNode]:
    """Returns the sources of the region and the sources that feed it."""
    seen: set[int] = set()
    pending = list(region)
    sources = []
    while pending:
        node = pending.pop()
        if node.id in seen:
            continue
        seen.add(node.id)
        if not node.in_edges:
            sources.append(node)
        pending.extend(edge.source for edge in node.in_edges)
    return sources


def _size_of(node: StreamNode) -> int:
    """Returns the size of a source in bytes; 0 if it is unknown."""
    spec = node.transformation.spec
    if not isinstance(spec, specs.SourceSpec):
        return 0
    try:
        return spec.source.estimated_size_bytes() or 0
    except FlinkError:  # tasks may see files that the program does not see; otherwise they report the error
        return 0
