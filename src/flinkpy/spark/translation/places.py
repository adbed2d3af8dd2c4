"""Says where Spark runs each operator of a region: itself or in a Python worker, and why. Needs no Spark session."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkpy.graph.operator_specs import SinkSpec
from flinkpy.graph.partitioning import GLOBAL
from flinkpy.graph.spark_region import SparkNode, SparkRegion
from flinkpy.spark import columns
from flinkpy.spark.columns.names import NotExpressible
from flinkpy.spark.settings import settings_of
from flinkpy.spark.stream_frame import Layout, natural_layout
from flinkpy.spark.translation.parquet_sinks import check_parquet_sink
from flinkpy.spark.translation.planner import ANYWHERE, PassUnit, Plan, plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Spark's optimizer plans the operator and compiles it.
CATALYST = "catalyst"
#: flinkpy's own operator, in a Python worker of Spark.
PYTHON = "python"

#: The variable by which PySpark makes columns without a JVM.
_CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"


@dataclass(frozen=True, slots=True)
class OperatorPlace:
    """The place where Spark runs an operator.

    Attributes:
        node_id: the id of the node in the region.
        engine: CATALYST or PYTHON.
        unit: the number of the pass, or of the operation of Spark. Operators of one pass are chained.
    """

    node_id: int
    name: str
    engine: str
    reason: str
    unit: int


def obstacle_of(region: SparkRegion, node: SparkNode, running: SparkSession | None = None) -> str | None:
    """Returns why Spark cannot run a node itself; None if it can.

    Args:
        running: the session that will run the node; None if it is not known. It is asked for its file systems.

    Raises:
        InputNotFoundError: the files of a source do not exist.
    """
    if isinstance(node.spec, SinkSpec):
        return _obstacle_of_sink(region, node, running)
    conf = settings_of(region.options).conf if running is None else None
    obstacle = columns.obstacle_of(node, running, conf)
    if obstacle is not None:
        return obstacle
    if any(natural_layout(edge.type_info) is Layout.BLOCKS for edge in node.inputs):
        return "Spark has no columns for the records of its input"
    return "it has a side output" if any(one == node.id and tag for one, tag in read_streams(region)) else None


def _obstacle_of_sink(region: SparkRegion, node: SparkNode, running: SparkSession | None) -> str | None:
    try:
        check_parquet_sink(node)
    except NotExpressible as reason:
        return f"Spark cannot do it itself: {reason}"
    edges = node.inputs
    if len(edges) != 1 or edges[0].tag is not None or edges[0].partitioning_kind not in (GLOBAL, *ANYWHERE):
        return "its records come from several streams, or go to certain subtasks"
    source = edges[0].source
    if source >= 0 and obstacle_of(region, region.node(source), running) is not None:
        return "its records come from a Python worker"
    return None


def read_streams(region: SparkRegion) -> list[tuple[int, str | None]]:
    """Returns the stream of each edge and output."""
    edges = [(edge.source, edge.tag) for node in region.nodes for edge in node.inputs]
    return edges + [(output.node, output.tag) for output in region.outputs]


def places_of(region: SparkRegion, planned: Plan, running: SparkSession | None = None) -> list[OperatorPlace]:
    """Returns the places of the operators of a planned region, in the order of its nodes."""
    found: dict[int, OperatorPlace] = {}
    for number, unit in enumerate(planned.units):
        if not isinstance(unit, PassUnit):
            reason = "Spark has the same operation over columns"
            found[unit.node.id] = OperatorPlace(unit.node.id, unit.node.name, CATALYST, reason, number)
            continue
        for node in unit.nodes:
            why = obstacle_of(region, node, running) or f"it goes on in the Python worker of '{unit.head.name}'"
            found[node.id] = OperatorPlace(node.id, node.name, PYTHON, why, number)
    return [found[node.id] for node in region.nodes]


def describe_places(places: Iterable[OperatorPlace]) -> str:
    """Returns a line for each operator: its place, and the reason if it is a Python worker."""
    return "\n".join(
        f"{one.name}: Catalyst" if one.engine == CATALYST else f"{one.name}: Python worker, because {one.reason}"
        for one in places
    )


def planned_places(region: SparkRegion) -> list[OperatorPlace]:
    """Plans a region and returns the places of its operators, in a process that may have no Spark.

    Raises:
        ImportError: pyspark is not installed.
        InputNotFoundError: the files of a source do not exist.
    """
    is_local = settings_of(region.options).is_local
    with _columns_without_jvm():
        planned = plan(region, lambda node: obstacle_of(region, node) is None, separates_sinks=not is_local)
        return places_of(region, planned)


@contextmanager
def _columns_without_jvm() -> Iterator[None]:
    """Makes PySpark build columns in Python, as for Spark Connect. A process with a JVM needs no change."""
    from pyspark import SparkContext

    before = os.environ.get(_CONNECT_MODE)
    if SparkContext._active_spark_context is None:
        os.environ[_CONNECT_MODE] = "1"
    try:
        yield
    finally:
        os.environ.pop(_CONNECT_MODE, None)
        if before is not None:
            os.environ[_CONNECT_MODE] = before
