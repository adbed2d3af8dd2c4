"""Predicates: passes the conditions of filters to the sources before them."""

from __future__ import annotations

from dataclasses import replace

from flinkpy.expressions.nodes import Call, ColumnReference, Expression, Literal, conjunction, conjuncts
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.stream_graph import StreamGraph, StreamNode

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
