"""PlanGraph: physical nodes with their numbers, and its JSON.

The JSON has the layout of Flink's compiled plans: `nodes` with an `id` and a `type` such as `stream-exec-calc_1`, whose
end is the version of the node's class, and `edges` between them. `docs/compiled_plans.md` describes it.

Source: org.apache.flink.table.planner.plan.nodes.exec.{ExecNodeGraph, serde.JsonPlanGraph, ExecNodeMetadata}.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from flinkpy.common.errors import TableProgramError, UnsupportedOperationError
from flinkpy.sql.types.logical_types import RowType
from flinkpy.table.catalog.catalog_tables import ContextResolvedTable
from flinkpy.table.connectors.abilities import Ability
from flinkpy.table.planner.changelog.modes import ModifyKind, UpdateKind
from flinkpy.table.planner.physical import nodes as ph
from flinkpy.table.planner.plans.tables import PlanTables
from flinkpy.table.planner.plans.values import LATER_VERSION, PlanValues

#: The version of the layout around nodes.
FORMAT_VERSION = 1
#: Fields that are written in another form than other fields.
_SPECIAL = frozenset({"inputs", "row_type", "modify_kinds", "update_kind", "table", "source", "sink"})
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True)
class PlanGraph:
    """The nodes of the INSERTs of one job.

    Attributes:
        roots: the sinks.
        ids: the number of each node, by Python's id of the node. Numbers are part of the uids of operators.
        is_streaming: False for plans of batch mode.
        options: the options of the session on which the operators depend, as texts.
    """

    roots: tuple[ph.PhysicalNode, ...]
    ids: dict[int, int]
    is_streaming: bool
    options: dict[str, str]

    @staticmethod
    def of(roots: Sequence[ph.PhysicalNode], *, is_streaming: bool, options: dict[str, str]) -> PlanGraph:
        """Returns the graph of new plans. Inputs are numbered before the nodes that read them, beginning with 1."""
        ids: dict[int, int] = {}
        for node in _inputs_first(roots):
            ids[id(node)] = len(ids) + 1
        return PlanGraph(tuple(roots), ids, is_streaming, options)

    @property
    def sinks(self) -> list[ph.Sink]:
        return [each for each in self.roots if isinstance(each, ph.Sink)]

    @property
    def nodes(self) -> list[ph.PhysicalNode]:
        """All nodes, each once, inputs first."""
        return list(_inputs_first(self.roots))


def _inputs_first(roots: Sequence[ph.PhysicalNode]) -> Iterator[ph.PhysicalNode]:
    seen: set[int] = set()

    def visit(node: ph.PhysicalNode) -> Iterator[ph.PhysicalNode]:
        if id(node) in seen:
            return
        seen.add(id(node))
        for each in node.inputs:
            yield from visit(each)
        yield node

    for root in roots:
        yield from visit(root)


def node_type(node: ph.PhysicalNode, *, is_streaming: bool) -> str:
    """Returns the name of the node's class in plans, without the version."""
    return f"{'stream' if is_streaming else 'batch'}-exec-{kebab(type(node).__name__)}"


def kebab(name: str) -> str:
    """Returns `group-aggregate` for `GroupAggregate`."""
    return _WORDS.sub("-", name).lower()


@lru_cache(maxsize=1)
def _node_classes() -> dict[str, type[ph.PhysicalNode]]:
    found: dict[str, type[ph.PhysicalNode]] = {}
    pending = [ph.PhysicalNode]
    while pending:
        for each in pending.pop().__subclasses__():
            pending.append(each)
            found[kebab(each.__name__)] = each
    return found


class PlanCodec:
    """Writes and reads plans.

    Args:
        create_source, create_sink: return the connector of a ContextResolvedTable.
    """

    def __init__(
        self,
        values: PlanValues,
        tables: PlanTables,
        create_source: Callable[[ContextResolvedTable], Any],
        create_sink: Callable[[ContextResolvedTable], Any],
    ) -> None:
        self._values = values
        self._tables = tables
        self._create_source = create_source
        self._create_sink = create_sink

    # -- writing -----------------------------------------------------------------------------------------------------

    def encode(self, graph: PlanGraph) -> dict[str, Any]:
        """Returns the JSON of a plan. Raises: UnsupportedOperationError if a node has something that a plan cannot."""
        from flinkpy import __version__

        nodes = graph.nodes
        edges = [
            {"source": graph.ids[id(each)], "target": graph.ids[id(node)]} for node in nodes for each in node.inputs
        ]
        return {
            "flinkpyVersion": __version__,
            "formatVersion": FORMAT_VERSION,
            "configuration": graph.options,
            "nodes": [self._encode_node(node, graph) for node in nodes],
            "edges": edges,
        }

    def _encode_node(self, node: ph.PhysicalNode, graph: PlanGraph) -> dict[str, Any]:
        name = node_type(node, is_streaming=graph.is_streaming)
        written: dict[str, Any] = {"id": graph.ids[id(node)], "type": f"{name}_{node.plan_version}"}
        table = getattr(node, "table", None)
        if table is not None:
            self._check_connector(node)
            written["table"] = self._tables.encode(table)
        written.update(self._values.encode_fields(node, _SPECIAL))
        written["outputType"] = self._values.encode_type(node.row_type)
        written["changelogMode"] = [kind.name for kind in ModifyKind if kind in node.modify_kinds]
        if node.update_kind is not UpdateKind.NONE:
            written["updateKind"] = node.update_kind.name
        written["description"] = node.description(infix=True)
        return written

    def _check_connector(self, node: Any) -> None:
        """Raises: UnsupportedOperationError if the connector cannot be made again from its table and abilities."""
        is_sink = isinstance(node, ph.Sink)
        used = node.sink if is_sink else node.source
        again = self._connector(node.table, getattr(node, "abilities", ()), is_sink=is_sink)
        rows = getattr(used, "produced_type", None)
        if type(again) is not type(used) or getattr(again, "produced_type", None) != rows:
            raise UnsupportedOperationError(
                f"A plan cannot describe what the connector of table '{node.table.identifier.as_summary_string()}' "
                f"has taken over from the query: {node.description()}"
            )

    def _connector(self, table: ContextResolvedTable, abilities: Sequence[Ability], *, is_sink: bool) -> Any:
        connector = self._create_sink(table) if is_sink else self._create_source(table)
        for each in abilities:
            connector = each.apply(connector)
            if connector is None:
                raise TableProgramError(
                    f"The connector of table '{table.identifier.as_summary_string()}' does not support "
                    f"{type(each).__name__}, which the plan needs."
                )
        return connector

    # -- reading -----------------------------------------------------------------------------------------------------

    def decode(self, data: Any) -> PlanGraph:
        """Returns the plan. Raises: TableProgramError if this version or session cannot run it."""
        check_layout(data)
        inputs: dict[int, list[int]] = {}
        for edge in data["edges"]:
            inputs.setdefault(edge["target"], []).append(edge["source"])
        nodes: dict[int, ph.PhysicalNode] = {}
        is_streaming = all(each["type"].startswith("stream-exec-") for each in data["nodes"])
        for each in data["nodes"]:
            number = each["id"]
            below = inputs.get(number, [])
            unknown = [source for source in below if source not in nodes]
            if unknown or number in nodes:
                raise TableProgramError(f"The plan is damaged: node {number} reads node {(unknown or [number])[0]}.")
            nodes[number] = self._decode_node(each, [nodes[source] for source in below])
        read = {source for below in inputs.values() for source in below}
        roots = tuple(node for number, node in nodes.items() if number not in read)
        ids = {id(node): number for number, node in nodes.items()}
        return PlanGraph(roots, ids, is_streaming, dict(data.get("configuration", {})))

    def _decode_node(self, data: dict[str, Any], inputs: list[ph.PhysicalNode]) -> ph.PhysicalNode:
        cls = _class_of(data["type"])
        row_type = self._values.decode_type(data["outputType"])
        assert isinstance(row_type, RowType)
        given: dict[str, Any] = {
            "inputs": inputs,
            "row_type": row_type,
            "modify_kinds": frozenset(ModifyKind[name] for name in data["changelogMode"]),
            "update_kind": UpdateKind[data.get("updateKind", "NONE")],
        }
        if "table" in data:
            table = self._tables.decode(data["table"])
            is_sink = issubclass(cls, ph.Sink)
            abilities = self._values.decode(data.get("abilities", []))
            given["table"] = table
            given["sink" if is_sink else "source"] = self._connector(table, abilities, is_sink=is_sink)
        rest = {key: value for key, value in data.items() if key not in _COMMON}
        node: ph.PhysicalNode = self._values.build(cls, rest, data["type"], **given)
        return node


#: The keys of a node in JSON that are no fields of its class under these names.
_COMMON = frozenset({"id", "type", "table", "outputType", "changelogMode", "updateKind", "description"})


def check_layout(data: Any) -> None:
    """Raises: TableProgramError if the JSON is no compiled plan, or one of a later format."""
    if not isinstance(data, dict) or not isinstance(data.get("nodes"), list) or "edges" not in data:
        hint = " It is a plan of Flink." if isinstance(data, dict) and "flinkVersion" in data else ""
        raise TableProgramError(f"The JSON is no compiled plan of flinkpy.{hint}")
    if "flinkVersion" in data:
        raise TableProgramError("The JSON is a plan that Flink compiled. Compile the statement again with flinkpy.")
    version = data.get("formatVersion")
    if version != FORMAT_VERSION:
        raise TableProgramError(
            f"The plan has the format version {version}, and this version of flinkpy reads {FORMAT_VERSION}. It was "
            f"compiled by flinkpy {data.get('flinkpyVersion', 'of an unknown version')}."
        )


def _class_of(written: str) -> type[ph.PhysicalNode]:
    name, _, version = written.rpartition("_")
    cls = _node_classes().get(re.sub("^(stream|batch)-exec-", "", name))
    if cls is None or version != str(cls.plan_version):
        raise TableProgramError(f"The plan has a node of the unknown type '{written}'.{LATER_VERSION}")
    return cls
