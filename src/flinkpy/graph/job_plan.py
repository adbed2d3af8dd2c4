"""JobPlan: the operators of a job as it will run, each with its place and the reason, as plain data.

`flinkpy explain`, `get_execution_plan` and the details of a job show it. It is made from the final graph, so it has the
optimizations, the chains and the exchanges of the job itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from flinkpy.common.configuration import Configuration
from flinkpy.graph.chaining import Chain, build_chains
from flinkpy.graph.job_graph_generator import undecided_heads
from flinkpy.graph.operator_specs import SinkCommitterSpec
from flinkpy.graph.spark_choice import has_no_cluster
from flinkpy.graph.spark_region import SparkEdge, SparkRegion, SparkRegionSpec, output_number
from flinkpy.graph.stream_graph import StreamEdge, StreamGraph, StreamNode, pact_of

NATIVE = "native"
#: A sink or committer in Spark's driver, if the job has no cluster.
DRIVER = "driver"
#: An operator in Spark, if pyspark is not installed here to tell more.
SPARK = "spark"

_STREAMING = "the job runs in streaming mode"
_COMMITS = "it commits what its sink has written"


class Place(Protocol):
    """The place of an operator in Spark, see `flinkpy.spark.translation.places.OperatorPlace`."""

    @property
    def node_id(self) -> int: ...

    @property
    def engine(self) -> str: ...

    @property
    def reason(self) -> str: ...

    @property
    def unit(self) -> int: ...


#: Returns the places of the operators of a region; None if it cannot tell.
PlacesOf = Callable[[SparkRegion], Sequence[Place] | None]


@dataclass(frozen=True, slots=True)
class PlannedInput:
    """An edge to an operator.

    Attributes:
        operator: the id of the producer.
        exchange: the partitioning, for example `HASH`.
        is_chained: True if both operators run in one task or one Python worker, without an exchange.
        is_blocking: True if all records are written before the first is read.
        side_output: the tag of the producer's side output; empty for its main output.
    """

    operator: int
    exchange: str
    is_chained: bool
    is_blocking: bool = False
    side_output: str = ""


@dataclass(frozen=True, slots=True)
class PlannedOperator:
    """An operator.

    Attributes:
        id: its number in the plan.
        kind: `Data Source`, `Operator` or `Data Sink`.
        engine: `native`, `catalyst` (Spark itself), `python` (a Python worker of Spark), `spark` if it is not known
            which of the two, or `driver` (Spark's driver, if the job has no cluster).
        backend_reason: why it runs natively or in Spark.
        engine_reason: why Spark runs it itself, or a Python worker does; empty for a native operator.
        parallelism: the number of subtasks, or the maximum if `is_parallelism_open`.
        notes: the optimizations, such as the columns that a source reads.
    """

    id: int
    name: str
    uid: str
    kind: str
    description: str
    engine: str
    backend_reason: str
    engine_reason: str
    parallelism: int
    is_parallelism_open: bool
    inputs: tuple[PlannedInput, ...]
    notes: tuple[str, ...] = ()

    @property
    def backend(self) -> str:
        return NATIVE if self.engine in (NATIVE, DRIVER) else SPARK


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """A task: a chain of native operators, or a region in Spark.

    Attributes:
        place: `native`, `spark`, or `driver` for a part of a job without a cluster.
        operators: the ids of its operators.
    """

    place: str
    parallelism: int
    is_parallelism_open: bool
    operators: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JobPlan:
    job_name: str
    is_batch: bool
    tasks: tuple[PlannedTask, ...]
    operators: tuple[PlannedOperator, ...]


def job_plan(graph: StreamGraph, configuration: Configuration, *, is_batch: bool, places_of: PlacesOf) -> JobPlan:
    """Returns the plan of a graph in its final form: regions are cut out, and columns are optimized."""
    return _Planning(graph, configuration, is_batch, places_of).run()


#: An operator: a native node, or a region's host and the id of a node in the region.
_Key = tuple[int, int | None]


class _Planning:
    def __init__(self, graph: StreamGraph, configuration: Configuration, is_batch: bool, places_of: PlacesOf) -> None:
        self._graph = graph
        self._is_batch = is_batch
        self._places_of = places_of
        self._chains = build_chains(graph)
        self._native_engine = DRIVER if has_no_cluster(configuration) else NATIVE
        self._undecided = undecided_heads(graph, self._chains, configuration)
        self._chain_of = {node.id: chain for chain in self._chains for node in chain.nodes}
        #: Numbers in the order of the graph.
        self._numbers: dict[_Key, int] = {}

    def run(self) -> JobPlan:
        for node in self._graph.nodes:
            for key in _keys_of(node):
                self._numbers[key] = len(self._numbers) + 1
        operators: list[PlannedOperator] = []
        for node in self._graph.nodes:
            operators.extend(self._in_spark(node) if isinstance(node.spec, SparkRegionSpec) else [self._native(node)])
        return JobPlan(self._graph.job_name, self._is_batch, tuple(map(self._task, self._chains)), tuple(operators))

    def _task(self, chain: Chain) -> PlannedTask:
        is_region = isinstance(chain.head.spec, SparkRegionSpec)
        ids = sorted(self._numbers[key] for node in chain.nodes for key in _keys_of(node))
        return PlannedTask(
            SPARK if is_region else self._native_engine,
            chain.head.parallelism,
            chain.head.id in self._undecided,
            tuple(ids),
        )

    # -- native operators ---------------------------------------------------------------------------------------------

    def _native(self, node: StreamNode) -> PlannedOperator:
        reason = _STREAMING if not self._is_batch else ""
        if node.backend_choice is not None:
            reason = node.backend_choice.reason
        elif isinstance(node.spec, SinkCommitterSpec):
            reason = _COMMITS
        return PlannedOperator(
            id=self._numbers[node.id, None],
            name=node.name,
            uid=node.transformation.uid,
            kind=pact_of(node),
            description=node.transformation.description,
            engine=self._native_engine,
            backend_reason=reason,
            engine_reason="",
            parallelism=node.parallelism,
            is_parallelism_open=self._chain_of[node.id].head.id in self._undecided,
            inputs=tuple(self._native_input(edge) for edge in node.in_edges),
            notes=tuple(node.notes),
        )

    def _native_input(self, edge: StreamEdge) -> PlannedInput:
        is_chained = self._chain_of[edge.source.id] is self._chain_of[edge.target.id]
        key, side_output = _producer(edge)
        return PlannedInput(
            self._numbers[key],
            edge.partitioning.kind,
            is_chained,
            not is_chained and (self._graph.are_exchanges_blocking or edge.is_blocking),
            side_output,
        )

    # -- operators in Spark -------------------------------------------------------------------------------------------

    def _in_spark(self, host: StreamNode) -> Iterable[PlannedOperator]:
        spec = host.spec
        assert isinstance(spec, SparkRegionSpec)
        replaced = {node.id: node for node in host.replaced}
        places = {place.node_id: place for place in self._places_of(spec.region) or ()}
        for node in spec.region.nodes:
            original = replaced[node.id]
            place = places.get(node.id)
            choice = original.backend_choice
            yield PlannedOperator(
                id=self._numbers[host.id, node.id],
                name=node.name,
                uid=node.uid,
                kind=pact_of(original),
                description=original.transformation.description,
                engine=SPARK if place is None else place.engine,
                backend_reason="" if choice is None else choice.reason,
                engine_reason="" if place is None else place.reason,
                parallelism=node.parallelism,
                is_parallelism_open=False,
                inputs=tuple(self._spark_input(host, edge, node.id, places) for edge in node.inputs),
            )

    def _spark_input(self, host: StreamNode, edge: SparkEdge, node_id: int, places: dict[int, Any]) -> PlannedInput:
        if edge.source < 0:
            native = next(one for one in host.in_edges if one.input_index == -1 - edge.source)
            key, side_output = _producer(native)
            return PlannedInput(self._numbers[key], edge.partitioning_kind, False, True, side_output)
        units = [places[one].unit if one in places else one for one in (edge.source, node_id)]
        return PlannedInput(
            self._numbers[host.id, edge.source],
            edge.partitioning_kind,
            units[0] == units[1],
            side_output=edge.tag or "",
        )


def _keys_of(node: StreamNode) -> list[_Key]:
    if isinstance(node.spec, SparkRegionSpec):
        return [(node.id, inner.id) for inner in node.spec.region.nodes]
    return [(node.id, None)]


def _producer(edge: StreamEdge) -> tuple[_Key, str]:
    """Returns the operator that emits the records of an edge, and the tag of its side output."""
    spec = edge.source.spec
    if not isinstance(spec, SparkRegionSpec):
        return (edge.source.id, None), edge.side_output_tag
    number, region = output_number(edge.side_output_tag), spec.region
    if number < len(region.outputs):
        output = region.outputs[number]
        return (edge.source.id, output.node), output.tag or ""
    return (edge.source.id, region.committables[number - len(region.outputs)]), ""


# -- forms -------------------------------------------------------------------------------------------------------------


def flink_plan(plan: JobPlan) -> dict[str, Any]:
    """Returns the plan in the format of Flink's plan visualiser, with the places of operators beside it.

    It is `{"nodes": [...]}`. Each node has an id, type, pact, contents, parallelism, and its predecessors with the ship
    strategy.

    Source: org.apache.flink.streaming.api.graph.JSONGenerator.
    """
    return {"nodes": [_flink_node(operator, plan.is_batch) for operator in plan.operators]}


def _flink_node(operator: PlannedOperator, is_batch: bool) -> dict[str, Any]:
    node: dict[str, Any] = {
        "id": operator.id,
        "type": operator.name,
        "pact": operator.kind,
        "contents": "; ".join([operator.description or operator.name, *operator.notes]),
        "parallelism": operator.parallelism,
    }
    if is_batch:
        node["backend"] = operator.backend
        node["backend_reason"] = operator.backend_reason
        if operator.engine_reason:
            node["engine"] = operator.engine
            node["engine_reason"] = operator.engine_reason
    if operator.inputs:
        node["predecessors"] = [
            {"id": edge.operator, "ship_strategy": edge.exchange, "side": "second"} for edge in operator.inputs
        ]
    return node


_ENGINES = {NATIVE: "native", DRIVER: "driver", SPARK: "Spark", "catalyst": "Catalyst", "python": "Python worker"}


def plan_lines(plan: JobPlan) -> list[str]:
    """Returns the plan as lines of text: the operators by task, each with its inputs, its place and the reason."""
    by_id = {operator.id: operator for operator in plan.operators}
    widths = (
        max(len(str(operator.id)) for operator in plan.operators),
        min(60, max(len(operator.name) for operator in plan.operators)),
        max(len(_ENGINES[operator.engine]) for operator in plan.operators),
    )
    lines = [f"Job '{plan.job_name}', {'batch' if plan.is_batch else 'streaming'} mode"]
    for number, task in enumerate(plan.tasks, start=1):
        operators = [by_id[one] for one in task.operators]
        lines += ["", f"Task {number}: {_task_text(task, operators)}"]
        for operator in operators:
            lines += _operator_lines(operator, _reason(operator, operators, plan), widths)
    return lines


def _task_text(task: PlannedTask, operators: list[PlannedOperator]) -> str:
    if task.place == NATIVE:
        return f"native, parallelism {_parallelism(task.parallelism, task.is_parallelism_open)}"
    if task.place == DRIVER:
        return "in Spark's driver"
    reasons = dict.fromkeys(operator.backend_reason for operator in operators)
    return f"Spark, because {'; '.join(reasons)}"


def _reason(operator: PlannedOperator, operators: list[PlannedOperator], plan: JobPlan) -> str:
    """Returns the reason to show: not that of the task again, and none for the usual case."""
    if operator.engine == "catalyst" or not plan.is_batch:
        return ""
    if operator.backend == SPARK:
        return operator.engine_reason
    is_new = operator is operators[0] or operator.backend_reason != operators[0].backend_reason
    return operator.backend_reason if is_new else ""


def _operator_lines(operator: PlannedOperator, reason: str, widths: tuple[int, int, int]) -> list[str]:
    of_id, of_name, of_engine = widths
    head = f"  {operator.id:>{of_id}}  {operator.name:<{of_name}}  {_ENGINES[operator.engine]:<{of_engine}}"
    if operator.engine == "catalyst":
        head += "  partitions of Spark"
    elif operator.engine != DRIVER:
        head += f"  parallelism {_parallelism(operator.parallelism, operator.is_parallelism_open)}"
    if operator.inputs:
        head += f"  <- {', '.join(map(_input_text, operator.inputs))}"
    indent = " " * (of_id + 4)
    lines = [head.rstrip()]
    if reason:
        lines.append(f"{indent}  because {reason}")
    lines += [f"{indent}  {note}" for note in operator.notes]
    return lines


def _input_text(edge: PlannedInput) -> str:
    text = str(edge.operator)
    if edge.side_output:
        text += f" [{edge.side_output}]"
    if edge.is_chained:
        return f"{text} chained"
    return f"{text} {edge.exchange}{' blocking' if edge.is_blocking else ''}"


def _parallelism(parallelism: int, is_open: bool) -> str:
    return f"{parallelism} at most" if is_open else str(parallelism)
