"""The column optimiser: reduces the data that a program of column operations reads and exchanges.

| rule | what it does | where |
|---|---|---|
| fusion | merges consecutive selections and filters | batch mode |
| projection | sources, selections and filters emit only the columns that a consumer needs | both modes |
| predicates | sources receive the conditions of filters, and may skip blocks without matching records | both modes |
| pre-aggregation | aggregates by key before the exchange too | batch mode |

It changes only operators that use nothing but columns. A stream that a function or sink reads keeps all of its columns.
In streaming mode the graph keeps its operators, and so their ids.

Source: org.apache.flink.table.planner.plan.rules.logical.{PushProjectIntoTableSourceScanRule,
PushFilterIntoTableSourceScanRule}, org.apache.flink.table.planner.plan.rules.physical.batch.BatchPhysicalHashAggRule.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from flinkpy.configuration import read_option
from flinkpy.configuration.execution_options import COLUMN_OPTIMIZER_ENABLED
from flinkpy.expressions.nodes import (
    Alias,
    Call,
    ColumnReference,
    Expression,
    Literal,
    conjunction,
    conjuncts,
    substitute,
    walk,
)
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.chaining import is_chainable
from flinkpy.graph.column_pre_aggregation import pre_aggregate
from flinkpy.graph.column_projection import push_projections
from flinkpy.graph.stream_graph import StreamGraph, StreamNode

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration


def optimize_columns(graph: StreamGraph, configuration: Configuration, is_batch: bool) -> None:
    """Optimises the column operators of the graph. Adds notes about the changes to its nodes."""
    if not read_option(configuration, COLUMN_OPTIMIZER_ENABLED):
        return
    if is_batch:
        fuse(graph)
    push_projections(graph)
    push_predicates(graph, is_batch)
    if is_batch:
        pre_aggregate(graph)


#: The maximum size of fused expressions. Substitution can grow them exponentially, for example in a chain of squares.
_MAX_NODES = 1_000


def fuse(graph: StreamGraph) -> None:
    """Merges each selection or filter with the next one, if that is its only consumer and chained to it."""
    place = 0
    while place < len(graph.nodes):
        node = graph.nodes[place]
        place += 1
        while (follower := _follower(node, graph)) is not None:
            fused = _fused(node.spec, follower.spec)
            if fused is None:
                break
            node.optimized_spec = fused
            node.name = f"{node.name} -> {follower.name}"
            node.note(f"fused: {follower.name}")
            node.out_edges = follower.out_edges
            for edge in node.out_edges:
                edge.source = node
            graph.nodes.remove(follower)
    for number, node in enumerate(graph.nodes, start=1):
        node.id = number


def _follower(node: StreamNode, graph: StreamGraph) -> StreamNode | None:
    if not _is_fusible(node) or len(node.out_edges) != 1:
        return None
    edge = node.out_edges[0]
    follower = edge.target
    is_own = bool(follower.transformation.uid or follower.transformation.uid_hash)
    if edge.side_output_tag or is_own or not _is_fusible(follower) or not is_chainable(edge, graph.options):
        return None
    same = node.max_parallelism == follower.max_parallelism
    return follower if same and node.chaining_strategy is follower.chaining_strategy else None


def _is_fusible(node: StreamNode) -> bool:
    spec = node.spec
    return isinstance(spec, specs.SelectSpec) or (
        isinstance(spec, specs.FilterBatchesSpec) and spec.expression is not None
    )


def _fused(one: specs.OperatorSpec, other: specs.OperatorSpec) -> specs.OperatorSpec | None:
    """Returns both operators as one; None if that would be too large."""
    types = {"input_types": one.input_types, "output_type": other.output_type}
    if isinstance(one, specs.FilterBatchesSpec):
        if isinstance(other, specs.FilterBatchesSpec):
            return specs.FilterBatchesSpec(None, conjunction([one.expression, other.expression]), **types)
        assert isinstance(other, specs.SelectSpec)
        return specs.SelectSpec(other.expressions, _both(one.expression, other.predicate), **types)
    assert isinstance(one, specs.SelectSpec)
    made = {each.name: each.expression for each in one.expressions}
    if isinstance(other, specs.FilterBatchesSpec):
        predicate = _both(one.predicate, substitute(other.expression, made))
        return _checked(specs.SelectSpec(one.expressions, predicate, **types))
    assert isinstance(other, specs.SelectSpec)
    expressions = tuple(Alias(substitute(each.expression, made), each.name) for each in other.expressions)
    later = None if other.predicate is None else substitute(other.predicate, made)
    return _checked(specs.SelectSpec(expressions, _both(one.predicate, later), **types))


def _both(one: Expression | None, other: Expression | None) -> Expression | None:
    return conjunction([each for each in (one, other) if each is not None])


def _checked(spec: specs.SelectSpec) -> specs.SelectSpec | None:
    trees = [*spec.expressions, *([] if spec.predicate is None else [spec.predicate])]
    count = 0
    for tree in trees:
        for node in walk(tree):
            count += not isinstance(node, ColumnReference)
            if count > _MAX_NODES:
                return None
    return spec


_COMPARISONS = frozenset({"equals", "notEquals", "lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual"})
_ABOUT_COLUMNS = frozenset({"in", "isNull", "isNotNull", "startsWith"})


def push_predicates(graph: StreamGraph, is_batch: bool) -> None:
    """Passes the condition of a filter to the source before it, if the filter is its only consumer.

    The filter stays, because the source skips only what it can. In streaming mode, sources with a watermark strategy
    are left alone, because skipped records would advance the watermark too.
    """
    for node in graph.nodes:
        spec = node.spec
        if not isinstance(spec, specs.SourceSpec) or len(node.out_edges) != 1 or node.out_edges[0].side_output_tag:
            continue
        if spec.watermark_strategy is not None and not is_batch:
            continue
        predicate = _predicate_of(node.out_edges[0].target)
        pushed = (
            conjunction([part for part in conjuncts(predicate) if _is_simple(part)]) if predicate is not None else None
        )
        if pushed is None:
            continue
        filtered = spec.source.filtered_by(pushed)
        if filtered is not None:
            node.optimized_spec = replace(spec, source=filtered)
            node.note(f"where: {pushed}")


def _predicate_of(node: StreamNode) -> Expression | None:
    spec = node.spec
    found = None
    if isinstance(spec, specs.SelectSpec):
        found = spec.predicate
    elif isinstance(spec, specs.FilterBatchesSpec):
        found = spec.expression
    return found if isinstance(found, Expression) else None


def _is_simple(part: Expression) -> bool:
    """True if block statistics can decide it: conditions on a column and literals, combined by AND and OR."""
    if not isinstance(part, Call):
        return False
    if part.function in ("and", "or"):
        return all(map(_is_simple, part.arguments))
    arguments = part.arguments
    if part.function in _COMPARISONS and isinstance(arguments[0], Literal):
        arguments = arguments[::-1]
    if part.function not in _COMPARISONS and part.function not in _ABOUT_COLUMNS:
        return False
    if not isinstance(arguments[0], ColumnReference):
        return False
    return all(isinstance(each, Literal) and each.value is not None for each in arguments[1:])
