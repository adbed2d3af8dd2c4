"""Writes plans as Flink's EXPLAIN does.

Source: org.apache.flink.table.planner.plan.utils.{RelTreeWriterImpl, FlinkRelOptUtil, ExecNodePlanDumper}.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.physical import nodes as ph
from flinkpy.table.planner.physical.texts import window_text
from flinkpy.table.planner.rex_text import rex_text

Node = TypeVar("Node")


def physical_text(node: ph.PhysicalNode, *, changelog: bool = False, advised: Collection[int] = ()) -> str:
    """Returns the tree of a physical plan.

    Args:
        changelog: True to show the changes of each node.
        advised: the ids of nodes that the advice below the plan is about.
    """

    def line(each: ph.PhysicalNode) -> str:
        terms = each.terms()
        if id(each) in advised:
            terms = [("advice", "[1]"), *terms]
        if changelog:
            terms = [*terms, ("changelogMode", f"[{ph.changelog_text(each)}]")]
        return f"{each.name}({', '.join(f'{key}={value}' for key, value in terms)})"

    return _tree(node, line, lambda each: each.inputs)


def execution_text(nodes: Sequence[ph.PhysicalNode]) -> str:
    """Returns the execution plans of sinks, in which a part that is used again is a `Reused(reference_id=[n])`."""
    uses: dict[int, int] = {}

    def count(node: ph.PhysicalNode) -> None:
        uses[id(node)] = uses.get(id(node), 0) + 1
        if uses[id(node)] == 1:
            for each in node.inputs:
                count(each)

    for node in nodes:
        count(node)
    references: dict[int, int] = {}
    written: set[int] = set()

    def line(node: ph.PhysicalNode) -> str:
        text = node.description(infix=True)
        if uses[id(node)] == 1:
            return text
        if id(node) in written:
            return f"Reused(reference_id=[{references[id(node)]}])"
        written.add(id(node))
        references[id(node)] = len(references) + 1
        return (
            f"{text}(reuse_id=[{references[id(node)]}])"
            if not text.endswith(")")
            else (f"{text[:-1]})(reuse_id=[{references[id(node)]}])")
        )

    def inputs(node: ph.PhysicalNode) -> Sequence[ph.PhysicalNode]:
        seen = id(node) in expanded
        expanded.add(id(node))
        return () if seen else node.inputs

    expanded: set[int] = set()
    return "\n".join(_tree(node, line, inputs) for node in nodes)


def logical_text(node: rel.RelNode) -> str:
    """Returns the tree of a logical plan."""
    return _tree(node, _logical_line, lambda each: each.inputs)


def _tree(root: Node, line: Callable[[Node], str], inputs: Callable[[Node], Sequence[Node]]) -> str:
    lines: list[str] = []

    def visit(node: Node, prefix: str, children: str) -> None:
        lines.append(prefix + line(node))
        below = list(inputs(node))
        for place, each in enumerate(below):
            is_last = place == len(below) - 1
            visit(each, children + ("+- " if is_last else ":- "), children + ("   " if is_last else ":  "))

    visit(root, "", "")
    return "\n".join(lines) + "\n"


def _logical_line(node: rel.RelNode) -> str:
    def at(place: int) -> tuple[str, ...]:
        return tuple(f"${each}" for each in range(place))

    match node:
        case rel.Scan():
            return f"LogicalTableScan(table=[[{', '.join((*node.table.identifier.parts, *node.pushed))}]])"
        case rel.Project():
            columns = at(node.input.width)
            parts = [f"{n}=[{rex_text(e, columns)}]" for n, e in zip(node.names, node.expressions, strict=True)]
            return f"LogicalProject({', '.join(parts)})"
        case rel.Filter():
            return f"LogicalFilter(condition=[{rex_text(node.condition, at(node.width))}])"
        case rel.Join():
            columns = at(node.left.width + node.right.width)
            kind = node.join_type.name.lower()
            return f"LogicalJoin(condition=[{rex_text(node.condition, columns)}], joinType=[{kind}])"
        case rel.WatermarkAssigner():
            text = rex_text(node.watermark, at(node.width))
            return f"LogicalWatermarkAssigner(rowtime=[{node.names[node.rowtime]}], watermark=[{text}])"
        case rel.Aggregate():
            calls = [f"{each.name}=[{_call(each)}]" for each in node.aggregates]
            group = "{" + ", ".join(map(str, node.grouping)) + "}"
            return f"LogicalAggregate({', '.join([f'group=[{group}]', *calls])})"
        case rel.TableAggregate():
            group = "{" + ", ".join(map(str, node.grouping)) + "}"
            return f"LogicalTableAggregate(group=[{group}], tableAggregate=[[{_call(node.call)}]])"
        case rel.Sink():
            return f"LogicalSink(table=[{node.name}], fields=[{', '.join(node.names)}])"
        case rel.Sort():
            keys = [f"sort{place}=[${each.column}]" for place, each in enumerate(node.order)]
            for place, each in enumerate(node.order):
                nulls = "nulls-first" if each.nulls_first else "nulls-last"
                keys.append(f"dir{place}=[{'ASC' if each.ascending else 'DESC'}-{nulls}]")
            if node.offset:
                keys.append(f"offset=[{node.offset}]")
            if node.limit is not None:
                keys.append(f"fetch=[{node.limit}]")
            return f"LogicalSort({', '.join(keys)})"
        case rel.SetOperation():
            return f"Logical{node.kind.capitalize()}(all=[{str(node.all).lower()}])"
        case rel.Values():
            rows = ", ".join("{ " + ", ".join(rex_text(each, ()) for each in row) + " }" for row in node.rows)
            return f"LogicalValues(tuples=[[{rows}]])"
        case rel.WindowTableFunction():
            window = window_text(node.window, f"time_col=[{node.input.names[node.time_column]}]")
            return f"LogicalTableFunctionScan(invocation=[{window}])"
        case rel.ProcessTableFunction():
            return f"LogicalTableFunctionScan(invocation=[{node.invocation}])"
        case rel.MLPredict() | rel.VectorSearch():
            call = rex_text(node.call, at(node.input.width))
            return f"LogicalTableFunctionScan(invocation=[{call}])"
        case rel.Correlate():
            call = rex_text(node.call, at(node.input.width))
            return f"LogicalCorrelate(invocation=[{call}], joinType=[{node.join_type.name.lower()}])"
        case rel.Snapshot():
            return f"LogicalSnapshot(period=[{node.period}])"
        case rel.LateralJoin():
            return f"LogicalCorrelate(correlation=[$cor{node.correlation}], joinType=[{node.join_type.name.lower()}])"
        case rel.Match():
            return f"LogicalMatch(pattern=[{' '.join(node.pattern.names)}], outputFields=[[{', '.join(node.names)}]])"
        case rel.OverAggregate():
            calls = [f"{each.name}=[{_call(each)} OVER]" for group in node.groups for each in group.aggregates]
            return f"LogicalWindow({', '.join(calls)})"
        case rel.GroupWindowAggregate():
            calls = [f"{each.name}=[{_call(each)}]" for each in node.aggregates]
            return f"LogicalWindowAggregate({', '.join([f'window=[{node.window.kind}]', *calls])})"
    return type(node).__name__


def _call(call: object) -> str:
    from flinkpy.sql.rex import AggregateCall

    assert isinstance(call, AggregateCall)
    arguments = ", ".join(f"${each}" for each in call.arguments)
    distinct = "DISTINCT " if call.is_distinct else ""
    return f"{call.function}({distinct}{arguments})" + (
        "" if call.filter_index is None else f" FILTER ${call.filter_index}"
    )
