"""Replaces the parts of a StreamGraph that run in Spark: each region becomes one node, whose task hosts it.

A region is connected. No path leads from it to a native operator and back, because its task reads its whole input
before it emits output. So an operator joins the regions of its producers only if no such path results.
"""

from __future__ import annotations

import heapq
import logging

from flinkpy.common.configuration import Configuration
from flinkpy.common.key_groups import default_max_parallelism
from flinkpy.configuration.options import entries_of
from flinkpy.graph import spark_choice
from flinkpy.graph.operator_hashes import hash_operators, hash_text
from flinkpy.graph.operator_specs import SinkCommitterSpec, SinkSpec
from flinkpy.graph.partitioning import FORWARD, REBALANCE, Partitioning
from flinkpy.graph.sink_topology import add_committer, commits
from flinkpy.graph.spark_choice import AUTO, NATIVE, SPARK
from flinkpy.graph.spark_region import (
    SparkEdge,
    SparkInput,
    SparkNode,
    SparkOutput,
    SparkRegion,
    SparkRegionSpec,
    output_tag,
)
from flinkpy.graph.stream_graph import (
    DEFAULT_SLOT_SHARING_GROUP,
    BackendChoice,
    StreamEdge,
    StreamGraph,
    StreamNode,
    type_of_records,
)
from flinkpy.graph.transformation import ChainingStrategy, OperatorTransformation

_LOG = logging.getLogger(__name__)

#: The reason why a sink is native although Spark could run it.
_COMMITS_APART = (
    "native operators read results of its region, so Spark may compute them again after the sink has committed"
)
#: The maximum length of a region's name.
_MAX_NAME_CHARS = 160
#: The prefixes of the options of the job that a region gets.
_OPTION_PREFIXES = ("execution.batch.", "pipeline.", "python.", "sink.", "table.", "parallelism.")


def choose_backends(graph: StreamGraph, configuration: Configuration) -> None:
    """Sets the backend of every node, with the reason. The graph is in batch mode.

    A region with outputs may run again after its sinks have committed, because its outputs are needed again. The output
    of the second run is never committed. So committing sinks of a region with outputs run natively.

    Raises:
        UnsupportedOperationError: if the user chose Spark for an operator that Spark cannot run. Names the operator.
    """
    choices = spark_choice.first_choices(graph, configuration)
    for region in _regions(graph, choices, (SPARK, AUTO)):
        if any(choices[node.id].backend == AUTO for node in region):
            choices = spark_choice.final_choices(choices, region, spark_choice.decide(region, configuration))
    for region in _regions(graph, choices, (SPARK,)):
        # A driver without a cluster commits when it has all outputs.
        if _has_outputs(region) and not spark_choice.has_no_cluster(configuration):
            for node in region:
                if _commits(node):
                    choices[node.id] = BackendChoice(NATIVE, _COMMITS_APART)
    for node in graph.nodes:
        node.backend_choice = choices[node.id]


def _commits(node: StreamNode) -> bool:
    return isinstance(node.spec, SinkSpec) and commits(node.spec.sink)


def _has_outputs(region: list[StreamNode]) -> bool:
    inside = {node.id for node in region}
    return any(edge.target.id not in inside for node in region for edge in node.out_edges)


def cut_spark_regions(graph: StreamGraph, configuration: Configuration) -> None:
    """Replaces the nodes that run in Spark by nodes that host their regions.

    Raises:
        UnsupportedOperationError: as in `choose_backends`.
    """
    choose_backends(graph, configuration)
    choices = {node.id: node.backend_choice for node in graph.nodes if node.backend_choice is not None}
    regions = _regions(graph, choices, (SPARK,))
    if not regions:
        return
    ids = hash_operators(graph)
    for node in [node for region in regions for node in region if _commits(node)]:
        # A region that runs again must not commit again, so its committers are separate tasks, as in native batch mode.
        add_committer(graph, node, node.spec.sink)  # type: ignore[attr-defined]
    options = {key: value for key, value in entries_of(configuration).items() if key.startswith(_OPTION_PREFIXES)}
    cuts = [_Cut(graph, region, ids, options) for region in regions]
    _replace(graph, regions, cuts)
    for cut in cuts:
        _LOG.info("runs in Spark: %s", cut.host.transformation.description)


# -- the nodes of a region ------------------------------------------------------------------------------------------


def _regions(
    graph: StreamGraph, choices: dict[int, BackendChoice], backends: tuple[str, ...]
) -> list[list[StreamNode]]:
    """Returns the nodes with one of these backends, grouped into regions, in the order of their first nodes."""
    groups = _Groups(graph)
    chosen = {node.id for node in graph.nodes if choices[node.id].backend in backends}
    for node in graph.nodes:
        if node.id not in chosen:
            continue
        for edge in node.in_edges:
            if edge.source.id in chosen:
                groups.join(node.id, edge.source.id)
    found: dict[int, list[StreamNode]] = {}
    for node in graph.nodes:
        if node.id in chosen:
            found.setdefault(groups.of[node.id], []).append(node)
    return list(found.values())


class _Groups:
    """Groups of nodes without cycles between groups. `of` maps a node's id to its group."""

    def __init__(self, graph: StreamGraph) -> None:
        self.of = {node.id: node.id for node in graph.nodes}
        self._edges = [(edge.source.id, node.id) for node in graph.nodes for edge in node.in_edges]

    def join(self, one: int, other: int) -> None:
        """Merges the groups of two nodes, unless a path between them leads through a third group."""
        first = self.of[one]
        second = self.of[other]
        if first == second or self._has_detour(first, second) or self._has_detour(second, first):
            return
        for node, group in self.of.items():
            if group == first:
                self.of[node] = second

    def _has_detour(self, start: int, goal: int) -> bool:
        followers: dict[int, set[int]] = {}
        for source, target in self._edges:
            followers.setdefault(self.of[source], set()).add(self.of[target])
        pending = [group for group in followers.get(start, ()) if group not in (start, goal)]
        seen = set(pending)
        while pending:
            for group in followers.get(pending.pop(), ()):
                if group == goal:
                    return True
                if group not in seen and group != start:
                    seen.add(group)
                    pending.append(group)
        return False


# -- one region ----------------------------------------------------------------------------------------------------


class _Cut:
    """One region. `host` is the node that replaces it, still without edges."""

    def __init__(
        self, graph: StreamGraph, nodes: list[StreamNode], ids: dict[int, str], options: dict[str, str]
    ) -> None:
        self._ids = ids
        self._inside = {node.id for node in nodes}
        #: (producer, side output) -> the number of the input or output.
        self.inputs: dict[tuple[int, str], int] = {}
        self.outputs: dict[tuple[int, str], int] = {}
        self._in_edges: list[StreamEdge] = []
        spark_nodes = tuple(self._spark_node(node) for node in nodes)
        outputs = self._spark_outputs(nodes)
        region = SparkRegion(
            nodes=spark_nodes,
            inputs=tuple(
                SparkInput(type_of_records(edge), edge.partitioning.kind, edge.source.name) for edge in self._in_edges
            ),
            outputs=outputs,
            committables=self._committables(nodes, len(outputs)),
            options=options,
        )
        self.host = self._host(graph, nodes, region)

    def _spark_node(self, node: StreamNode) -> SparkNode:
        return SparkNode(
            id=node.id,
            name=node.name,
            uid=node.transformation.uid,
            operator_id=self._ids[node.id],
            spec=node.spec,
            parallelism=node.parallelism,
            inputs=tuple(self._spark_edge(edge) for edge in sorted(node.in_edges, key=lambda e: e.input_index)),
            max_parallelism=max(node.max_parallelism, 0) or default_max_parallelism(node.parallelism),
            has_default_parallelism=node.transformation.has_default_parallelism,
        )

    def _spark_edge(self, edge: StreamEdge) -> SparkEdge:
        source = edge.source.id
        tag = edge.side_output_tag or None
        if source not in self._inside:
            key = (source, edge.side_output_tag)
            if key not in self.inputs:
                self.inputs[key] = len(self._in_edges)
                self._in_edges.append(edge)
            source = -1 - self.inputs[key]
            tag = None
        return SparkEdge(
            source=source,
            input_index=edge.input_index,
            tag=tag,
            partitioning_kind=edge.partitioning.kind,
            partitioner=edge.partitioning.create_partitioner(),
            type_info=type_of_records(edge),
        )

    def _spark_outputs(self, nodes: list[StreamNode]) -> tuple[SparkOutput, ...]:
        found: list[SparkOutput] = []
        for edge in (edge for node in nodes for edge in node.out_edges if edge.target.id not in self._inside):
            if isinstance(edge.target.spec, SinkCommitterSpec):
                continue
            key = (edge.source.id, edge.side_output_tag)
            if key not in self.outputs:
                self.outputs[key] = len(found)
                found.append(SparkOutput(edge.source.id, edge.side_output_tag or None, type_of_records(edge)))
        return tuple(found)

    def _committables(self, nodes: list[StreamNode], num_outputs: int) -> tuple[int, ...]:
        """Returns the committing sinks. Numbers their outputs after the other outputs."""
        sinks = tuple(node.id for node in nodes if _commits(node))
        for number, sink in enumerate(sinks, start=num_outputs):
            self.outputs[sink, ""] = number
        return sinks

    def _host(self, graph: StreamGraph, nodes: list[StreamNode], region: SparkRegion) -> StreamNode:
        name = f"Spark: {', '.join(node.name for node in nodes)}"
        transformation = OperatorTransformation(
            name if len(name) <= _MAX_NAME_CHARS else f"{name[: _MAX_NAME_CHARS - 3]}...",
            SparkRegionSpec(region, input_types=tuple(one.type_info for one in region.inputs)),
            [edge.target.transformation.inputs[edge.input_index] for edge in self._in_edges],
            max_allowed_parallelism=1,
        )
        transformation.uid_hash = hash_text("spark region:" + ",".join(self._ids[node.id] for node in nodes))
        transformation.chaining_strategy = ChainingStrategy.NEVER
        choice = nodes[0].backend_choice
        assert choice is not None, "choose_backends was not called"
        transformation.description = f"{name} ({choice.reason})"
        return StreamNode(
            id=nodes[0].id,
            name=transformation.name,
            transformation=transformation,
            parallelism=1,
            max_parallelism=-1,
            slot_sharing_group=DEFAULT_SLOT_SHARING_GROUP,
            buffer_timeout_ms=graph.options.buffer_timeout_ms,
            backend_choice=choice,
            replaced=nodes,
        )


# -- the graph with hosts ------------------------------------------------------------------------------------------


def _replace(graph: StreamGraph, regions: list[list[StreamNode]], cuts: list[_Cut]) -> None:
    """Replaces the nodes of each region by its host, and sorts the graph topologically again."""
    cut_of = {node.id: cut for region, cut in zip(regions, cuts, strict=True) for node in region}
    owners = {node.id: cut_of[node.id].host if node.id in cut_of else node for node in graph.nodes}
    ins: dict[int, list[StreamEdge]] = {}
    outs: dict[int, list[StreamEdge]] = {}
    made: dict[tuple[int, int, str], StreamEdge] = {}
    for node in graph.nodes:
        for edge in node.out_edges:
            source, target = owners[edge.source.id], owners[edge.target.id]
            if source is target:
                continue
            new = edge
            if source is not edge.source or target is not edge.target:
                new = _edge_of_hosts(edge, owners, cut_of)
                if target is not edge.target:
                    key = (id(target), new.input_index, new.side_output_tag)
                    if key in made:
                        continue
                    made[key] = new
            outs.setdefault(id(source), []).append(new)
            ins.setdefault(id(target), []).append(new)
    nodes = list(dict.fromkeys(owners.values()))
    for node in nodes:
        node.out_edges = outs.get(id(node), [])
        # Sorted by input; edges of one input keep their order, which is the topological order of the producers.
        node.in_edges = sorted(ins.get(id(node), []), key=lambda edge: edge.input_index)
    graph.nodes = _in_topological_order(nodes)


def _edge_of_hosts(edge: StreamEdge, owners: dict[int, StreamNode], cut_of: dict[int, _Cut]) -> StreamEdge:
    source, target = owners[edge.source.id], owners[edge.target.id]
    key = (edge.source.id, edge.side_output_tag)
    tag = edge.side_output_tag
    input_index = edge.input_index
    partitioning = edge.partitioning
    if edge.source.id in cut_of:
        tag = output_tag(cut_of[edge.source.id].outputs[key])
    if edge.target.id in cut_of:
        input_index = cut_of[edge.target.id].inputs[key]
        partitioning = Partitioning(FORWARD)
    if partitioning.kind == FORWARD and source.parallelism != target.parallelism:
        partitioning = Partitioning(REBALANCE)
    return StreamEdge(source, target, partitioning, input_index, tag, edge.is_blocking)


def _in_topological_order(nodes: list[StreamNode]) -> list[StreamNode]:
    """Returns the nodes in topological order, with new ids. Among candidates, the lowest old id is next."""
    waiting = {node.id: len(node.in_edges) for node in nodes}
    ready = [(node.id, node) for node in nodes if not node.in_edges]
    heapq.heapify(ready)
    ordered: list[StreamNode] = []
    while ready:
        _, node = heapq.heappop(ready)
        ordered.append(node)
        for edge in node.out_edges:
            waiting[edge.target.id] -= 1
            if waiting[edge.target.id] == 0:
                heapq.heappush(ready, (edge.target.id, edge.target))
    for number, node in enumerate(ordered, start=1):
        node.id = number
    return ordered
