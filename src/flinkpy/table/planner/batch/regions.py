"""Cuts a batch plan into regions, the largest parts that an engine can compute, and the rest.

Source: the role of org.apache.flink.table.planner.plan.nodes.exec.processor.MultipleInputNodeCreationProcessor, which
fuses the nodes of a batch plan between exchanges.
"""

from __future__ import annotations

from flinkpy.graph.table_specs import EngineFiles, EngineTable
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.table.connectors.table_source import ScanTableSource
from flinkpy.table.planner.batch.dialect import Dialect, NotInEngine
from flinkpy.table.planner.batch.duckdb_dialect import DUCKDB
from flinkpy.table.planner.batch.engine_queries import QueryRenderer
from flinkpy.table.planner.logical import nodes as rel


def cut_into_regions(plan: rel.RelNode, dialect: Dialect) -> rel.RelNode:
    """Returns the plan with its regions as EngineQuery nodes."""
    return _Cutter(dialect).cut(plan)


class _Cutter:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._is_member: dict[int, bool] = {}
        self._done: dict[int, tuple[rel.RelNode, rel.RelNode]] = {}

    def cut(self, node: rel.RelNode) -> rel.RelNode:
        """Returns the node above its regions, or as the top of a region."""
        known = self._done.get(id(node))
        if known is None:
            region = self._region(node) if self._fits(node) else None
            if region is None:
                inputs = tuple(self.cut(each) for each in node.inputs)
                region = node.with_inputs(inputs) if inputs else node
            known = self._done[id(node)] = (node, region)
        return known[1]

    def _fits(self, node: rel.RelNode) -> bool:
        """True if the engine can compute the node from the rows of its inputs."""
        known = self._is_member.get(id(node))
        if known is None:
            known = bool(node.inputs or isinstance(node, rel.Values)) and self._is_renderable(node)
            self._is_member[id(node)] = known
        return known

    def _region(self, top: rel.RelNode) -> rel.RelNode | None:
        """Returns the largest region below a node; None if it is slower with the engine than without."""
        leaves: dict[int, rel.RelNode] = {}
        gains_from = self._dialect.gains_from
        pays = gains_from is None
        pending, seen = [top], set()
        while pending:
            node = pending.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if self._fits(node):
                pays = pays or isinstance(node, gains_from or ())
                pending.extend(reversed(node.inputs))
            else:
                leaves[id(node)] = node
        if not pays:
            return None
        names = {place: f"input_{number}" for number, place in enumerate(leaves)}
        renderer = QueryRenderer(self._dialect, names)
        query = renderer.query(top)
        parts, tables, files, scans = [], [], [], []
        for place, name in names.items():
            leaf = leaves[place]
            found = _files(name, leaf, self._engine_types(leaf)) if self._dialect is DUCKDB else None
            if found is not None:
                assert isinstance(leaf, rel.Scan)
                files.append(found)
                scans.append(_scan_text(leaf, found))
            else:
                parts.append(self.cut(leaf))
                tables.append(EngineTable(name, self._engine_types(leaf)))
        functions = tuple(renderer.expressions.functions)
        return rel.EngineQuery(
            tuple(parts),
            top.row_type,
            self._dialect.name,
            query,
            tuple(tables),
            tuple(files),
            functions,
            tuple(scans),
            _is_ordered(top),
        )

    def _is_renderable(self, node: rel.RelNode) -> bool:
        for each in node.inputs:
            if not each.width or not self._dialect.holds(each.row_type) or isinstance(each, rel.Snapshot):
                return False
        try:
            QueryRenderer(self._dialect, {id(each): "t" for each in node.inputs}).query(node)
        except NotInEngine:
            return False
        return True

    def _engine_types(self, node: rel.RelNode) -> tuple[str, ...]:
        return tuple(str(self._dialect.type_name(each.type)) for each in node.row_type.fields)


def _is_ordered(node: rel.RelNode) -> bool:
    while isinstance(node, (rel.Project, rel.Filter)):
        node = node.input
    return isinstance(node, rel.Sort) and bool(node.order)


def _scan_text(node: rel.Scan, files: EngineFiles) -> str:
    """Returns the table, its columns and its paths, which an OPTIONS hint may have changed."""
    table = node.table.identifier.as_summary_string()
    return f"{table}({', '.join(files.columns)}) AT {', '.join(files.source.paths)}"


def _files(name: str, node: rel.RelNode, engine_types: tuple[str, ...]) -> EngineFiles | None:
    """Returns the files of a scan that the engine reads itself; None for other nodes."""
    if not isinstance(node, rel.Scan) or not isinstance(node.source, ScanTableSource):
        return None
    source = node.source.parquet_files
    if source is None:
        return None
    columns = node.source.produced_type.names
    return EngineFiles(name, source, columns, InternalTypeInfo(node.row_type), engine_types)
