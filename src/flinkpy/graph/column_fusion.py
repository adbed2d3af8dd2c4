"""Fusion: merges consecutive selections and filters, in batch mode."""

from __future__ import annotations

from flinkpy.expressions.nodes import Alias, ColumnReference, Expression, conjunction, substitute, walk
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.chaining import is_chainable
from flinkpy.graph.stream_graph import StreamGraph, StreamNode

#: The maximum size of fused expressions. Substitution can grow them exponentially, for example in a chain of squares.
_MAX_NODES = 1_000


def fuse(graph: StreamGraph) -> None:
    """Merges each selection or filter with the one behind it, if that is its only consumer and chained to it."""
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
