"""Says where Spark runs each operator of a region: itself or in a Python worker, and why. Needs no Spark session."""

from __future__ import annotations

from collections.abc import Iterable
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


class Obstacles:
    """Says for each node of a region why Spark cannot run it itself. Checks each node once.

    Args:
        running: the session that will run the region; None if it is not known. It is asked for its file systems.
    """

    def __init__(self, region: SparkRegion, running: SparkSession | None = None) -> None:
        self._region = region
        self._running = running
        self._found: dict[int, str | None] = {}

    def of(self, node: SparkNode) -> str | None:
        """Returns the obstacle of a node; None if Spark can run it.

        Raises:
            InputNotFoundError: the files of a source do not exist.
        """
        if node.id not in self._found:
            self._found[node.id] = self._of_sink(node) if isinstance(node.spec, SinkSpec) else self._of_operator(node)
        return self._found[node.id]

    def _of_operator(self, node: SparkNode) -> str | None:
        conf = settings_of(self._region.options).conf if self._running is None else None
        obstacle = columns.obstacle_of(node, self._running, conf)
        if obstacle is not None:
            return obstacle
        if any(natural_layout(edge.type_info) is Layout.BLOCKS for edge in node.inputs):
            return "Spark has no columns for the records of its input"
        has_side_output = any(one == node.id and tag for one, tag in read_streams(self._region))
        return "it has a side output" if has_side_output else None

    def _of_sink(self, node: SparkNode) -> str | None:
        try:
            check_parquet_sink(node)
        except NotExpressible as reason:
            return f"Spark cannot do it itself: {reason}"
        edges = node.inputs
        if len(edges) != 1 or edges[0].tag is not None or edges[0].partitioning_kind not in (GLOBAL, *ANYWHERE):
            return "its records come from several streams, or go to certain subtasks"
        source = edges[0].source
        if source >= 0 and self.of(self._region.node(source)) is not None:
            return "its records come from a Python worker"
        return None


def read_streams(region: SparkRegion) -> list[tuple[int, str | None]]:
    """Returns the stream of each edge and output."""
    edges = [(edge.source, edge.tag) for node in region.nodes for edge in node.inputs]
    return edges + [(output.node, output.tag) for output in region.outputs]


def places_of(region: SparkRegion, planned: Plan, obstacles: Obstacles) -> list[OperatorPlace]:
    """Returns the places of the operators of a planned region, in the order of its nodes."""
    found: dict[int, OperatorPlace] = {}
    for number, unit in enumerate(planned.units):
        if not isinstance(unit, PassUnit):
            reason = "Spark has the same operation over columns"
            found[unit.node.id] = OperatorPlace(unit.node.id, unit.node.name, CATALYST, reason, number)
            continue
        for node in unit.nodes:
            why = obstacles.of(node) or f"it goes on in the Python worker of '{unit.head.name}'"
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
    obstacles = Obstacles(region)
    planned = plan(region, lambda node: obstacles.of(node) is None, separates_sinks=not is_local)
    return places_of(region, planned, obstacles)
